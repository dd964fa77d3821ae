"""The conversations under way, as the SDK knows them; the least recent are forgotten and come back whole."""

from collections import OrderedDict

from prx.domain.records import PRODUCTION
from prx.gateway.claims import Claims
from prx.gateway.identity import Asked, Identity
from prx.live.runtime import Runtime
from prx.live.session import Scope, Session

PASSED_ON = "passthrough"


class LiveSessions:
    """Sessions by agent and id.

    A session that was forgotten starts again under the ids of its first start, so that the store keeps
    one start, and lands in the same arms, which depend on its unit alone.
    """

    def __init__(self, runtime: Runtime, kept: int) -> None:
        self._runtime, self._kept = runtime, kept
        self._live: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self.claims = Claims()

    def __len__(self) -> int:
        return len(self._live)

    def session(
        self, agent: str, identity: Identity, ours: Asked, user: str | None, *, caller: str = ""
    ) -> Session:
        """The session of a request; the first request fixes user, tenant and channel. A name is a
        conversation of its own for each caller and tenant."""
        session_id = identity.session_id or self._runtime.new_id()
        if identity.named:
            session_id = self.claims.place(session_id, caller, ours.tenant)
        key = (agent, session_id)
        session = self._live.get(key)
        if session is not None:
            self._live.move_to_end(key)
            return session
        scope = Scope(
            session_id=session_id,
            ref=ours.ref,
            user=user,
            agent=agent,
            tenant=ours.tenant,
            env=ours.env or PRODUCTION,
            channel=ours.channel,
            anonymous=not identity.named,
        )
        return self._keep(key, Session(self._runtime, scope))

    def passed_on(self, agent: str) -> Session:
        """Where requests are recorded that belong to no conversation: not production, so that no fitness
        and no experiment reads them."""
        key = (agent, f"{PASSED_ON}/{agent}/{self._runtime.now():%Y-%m-%d}")
        session = self._live.get(key)
        if session is not None:
            return session
        scope = Scope(session_id=key[1], agent=agent, env=PASSED_ON, anonymous=True)
        return self._keep(key, Session(self._runtime, scope))

    def forget(self, agent: str, session_id: str) -> None:
        """Let a conversation that is over go; a later request with its id goes on with it."""
        self._live.pop((agent, session_id), None)

    def _keep(self, key: tuple[str, str], session: Session) -> Session:
        self._live[key] = session
        if len(self._live) > self._kept:
            self._live.popitem(last=False)
        return session
