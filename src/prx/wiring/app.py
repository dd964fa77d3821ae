"""The application object behind the command line, the worker and the demo."""

import logging
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from prx.domain.erasure import Subject
from prx.domain.events import Event, EventName
from prx.domain.ids import Ids, system_ids
from prx.domain.prices import FREE, LOCAL, Price, Prices, provider_of
from prx.domain.times import utc_now
from prx.engine.attempt import fenced
from prx.engine.context import Context, Models
from prx.engine.engine import Engine
from prx.engine.report import Report
from prx.ledger.port import Ledger
from prx.models.endpoint import ChatEndpoint, EndpointConfig
from prx.models.meter import Budget, BudgetNotice, CallMeter, MeteredModel
from prx.models.port import ChatModel
from prx.records.port import RecordStore
from prx.settings import ModelRole, Settings, load
from prx.spool.ship import Shipped, missed_rows, refill, ship
from prx.views.fitness import rules_from
from prx.wiring.auditheads import AuditHeads, Signed, audit_heads
from prx.wiring.decisionfiles import DecisionFiles, export_rules
from prx.wiring.erase import ErasureReport, ForgetPrompts, Places, erase
from prx.wiring.erasures import follow_erasures
from prx.wiring.lostrows import follow_lost_rows, tell_lost_rows
from prx.wiring.memories import engine_memory
from prx.wiring.paths import (
    config_file,
    home_folder,
    installation_secret,
    prepare_home,
    spool_folder,
)
from prx.wiring.servedmodels import ServedModels
from prx.wiring.spend import LedgerUsage, ServingCost
from prx.wiring.spooling import kept_for
from prx.wiring.stores import open_ledger, open_records

_LOG = logging.getLogger("prx")


@dataclass(slots=True)
class App:
    """Settings, stores and engine of one state folder. Close it when done."""

    settings: Settings
    ledger: Ledger
    records: RecordStore
    engine: Engine
    home: Path
    agent: str
    now: Callable[[], datetime]
    decision_files: DecisionFiles | None = None
    audit_heads: AuditHeads | None = None

    def ship(self) -> Shipped:
        """Bring spooled records into the store."""
        return ship(
            spool_folder(self.home),
            self.records.append,
            now=self.now(),
            retention=kept_for(self.settings.record),
        )

    def refill_lost(self, report: Report) -> None:
        """Fill a store that lost rows, as one from a backup has, from what the spool still holds."""
        fenced(report, "refill", "records", lambda: self._refill(report))

    def _refill(self, report: Report) -> None:
        folder, now = spool_folder(self.home), self.now()
        missed = missed_rows(folder, self.records.append)
        if not missed:
            follow_lost_rows(self.ledger, self.agent, now)
            return
        back = missed + refill(folder, self.records.append).new
        why = f"the store had lost rows: {back} are back"
        report.add("refill", "records", "done", why)
        tell_lost_rows(self.ledger, self.agent, now, f"{why} from the spool of this machine")

    def advance(self, *, safety_only: bool = False) -> Report:
        """Ship what was spooled, then do everything that is due; an error of the spool stops nothing."""
        report = Report()
        if not safety_only:
            self.refill_lost(report)
        fenced(report, "shipping", "spool", self.ship)
        fenced(report, "erasures", "spool and memory", self.follow_erasures)
        report.extend(self.engine.advance(self.now(), safety_only=safety_only))
        self.export_decisions(report)
        self.sign_audit_head(report)
        return report

    def sign_audit_head(self, report: Report) -> None:
        """Write the signed head of the audit log to its second place where that is due; never fails."""
        done = self.audit_heads.follow(self.now()) if self.audit_heads else Signed()
        if done.why:
            report.add("audit_head", "audit log", "error", done.why)
        elif done.head is not None:
            report.add("audit_head", "audit log", "done", f"signed row {done.head.seq}")

    def serving_usd(self, agent: str) -> float | None:
        """What the agent's own traffic cost in the last 30 days, US dollars; None where no price is known."""
        return ServingCost(self.records, self.now).usd(agent)

    def export_decisions(self, report: Report | None = None) -> None:
        """Bring the decision files up to date, where such are wanted; never fails the caller."""
        done = self.decision_files.follow(self.now()) if self.decision_files else None
        if done is None:
            return
        if done.why:
            _LOG.warning("prx: %s", done.why)
            if report is not None:
                report.add("decision_files", str(self.home), "error", done.why)
        elif report is not None and done.written:
            report.add("decision_files", str(self.home), "done", f"wrote {', '.join(done.written)}")

    def erase(
        self, subject: Subject, *, actor: str, dry_run: bool, forget_prompts: ForgetPrompts
    ) -> ErasureReport:
        """Remove everything recorded of the subject; see `prx.wiring.erase`. Raises: StoreError."""
        places = Places(self.home, self.ledger, self.records, self.engine.context.memory, forget_prompts)
        return erase(places, subject, actor=actor, now=self.now(), dry_run=dry_run)

    def follow_erasures(self) -> None:
        """Remove from this machine what was erased in the stores."""
        follow_erasures(self.home, self.records, self.engine.context.memory)

    def close(self) -> None:
        """Bring the decision files up to date, and release the stores."""
        if self.decision_files and not self.decision_files.failed:
            self.export_decisions()
        if self.engine.context.memory is not None:
            self.engine.context.memory.close()
        self.records.close()
        self.ledger.close()


def open_app(
    *,
    home: Path | None = None,
    config: Path | None = None,
    env: Mapping[str, str] | None = None,
    agent: str = "default",
    now: Callable[[], datetime] = utc_now,
    ids: Ids | None = None,
    models: Models | None = None,
    settings: Settings | None = None,
    durable: bool = True,
) -> App:
    """Open the state folder, creating it when needed.

    Args: `models`, `settings`, `ids`: stand in for what the configuration names, for the demo and tests.
        `durable`: False for a simulation that need not survive a power cut.
    Raises: SettingsError, StoreError.
    """
    environment = os.environ if env is None else env
    folder = home_folder(home, environment)
    chosen = settings or load(config_file(config, environment, folder), environment)
    prepare_home(folder)
    used_ids = ids or system_ids()
    ledger = open_ledger(chosen, folder, used_ids, durable=durable)
    try:
        records = open_records(chosen, folder)
    except BaseException:
        ledger.close()
        raise
    context = Context(
        ledger=ledger,
        records=records,
        settings=chosen,
        fitness=rules_from(chosen),
        ids=used_ids,
        models=models or configured_models(chosen, ledger, records, agent, now),
        memory=engine_memory(folder),
        sample_key=installation_secret(folder, used_ids),
        owner=f"{socket.gethostname()}-{os.getpid()}",
    )
    rules = export_rules(chosen, folder)
    files = DecisionFiles(ledger, rules) if rules else None
    app = App(
        chosen,
        ledger,
        records,
        Engine(context),
        folder,
        agent,
        now,
        files,
        audit_heads(ledger, chosen, folder),
    )
    app.export_decisions()
    return app


def model_price(role: ModelRole) -> Price | None:
    """What the operator says a model costs, else its list price; 0 on this machine or network."""
    if role.price_input >= 0 and role.price_output >= 0:
        return Price(role.price_input, role.price_output)
    provider = provider_of(role.base_url)
    return Prices().of(provider, role.model) or (FREE if provider == LOCAL else None)


def configured_models(
    settings: Settings, ledger: Ledger, records: RecordStore, agent: str, now: Callable[[], datetime]
) -> Models:
    """The endpoints that the operator configured, metered; a role without one is None."""
    budget = Budget(
        monthly_usd=settings.budget.monthly_usd or None,
        max_share_of_serving=settings.budget.max_share_of_serving,
    )

    def notify(notice: BudgetNotice) -> None:
        with ledger.transaction(now=now(), actor="engine") as tx:
            tx.emit(
                Event(
                    event_id=tx.ids.new(tx.now),
                    at=tx.now,
                    agent=notice.agent,
                    name=EventName.BUDGET,
                    summary=f"{notice.spent_usd:.2f} of {notice.limit_usd:.2f} USD used ({notice.level})",
                )
            )

    serving = ServingCost(records, now)
    meter = CallMeter(
        LedgerUsage(ledger, now),
        limit_usd=lambda name: budget.limit_usd(serving.usd(name)),
        notify=notify,
        clock=now,
    )

    def endpoint(name: str, given: ModelRole) -> ChatModel:
        price = model_price(given)
        config = EndpointConfig(
            role=name, base_url=given.base_url, model=given.model, key=given.key, price=price
        )
        return MeteredModel(ChatEndpoint(config), meter, agent=agent, role=name, price=price)

    def role(name: str, given: ModelRole) -> ChatModel | None:
        return endpoint(name, given) if given.configured else None

    def other(model: str) -> ChatModel:
        # a price that was told is the configured model's own
        return endpoint("agent", replace(given.agent, model=model, price_input=-1.0, price_output=-1.0))

    given = settings.models
    return Models(
        agent=role("agent", given.agent),
        judge=role("judge", given.judge),
        proposer=role("proposer", given.proposer),
        served=ServedModels(other) if given.agent.configured else {},
    )
