"""A generated world of one agent: a prompt with slots, its sessions, and what leaves the gateway."""

import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prx.domain.codec import content_hash
from prx.domain.ids import Ids
from prx.domain.prices import Prices
from prx.domain.records import Interaction, PromptSeen, Record, SessionStart, Trace
from prx.domain.serving import Serving
from prx.gateway.metrics import Metrics
from prx.gateway.prompts.book import PromptBook
from prx.gateway.prompts.learner import LearnRules
from prx.gateway.prompts.store import PromptFiles
from prx.gateway.shapes import wire_messages
from prx.gateway.views import read_body
from prx.live.intent import classify
from prx.live.runtime import Runtime
from prx.live.session import Scope, Session

NOW = datetime(2026, 12, 1, tzinfo=UTC)
MARK = re.compile(r"(?i)zq(\d+)x\d+")
WORDS = re.findall(
    r"\w+",
    "you are a helpful support agent for the store answer briefly and kindly never promise refunds ask "
    "for order number when missing use tools check policy first keep tone résumé 您好 客服 für Kunden",
)
FIRST = ("Ada", "Bo", "José", "Мария", "王小明", "Zoë", "O'Neil", "{slot_1}", "%s", "</system>")


def skeleton(rng: random.Random) -> list[str]:
    """Constants around slots: one more than there are slots."""
    constants, line = [], ""
    for _ in range(rng.randint(2, 7)):
        line += " ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 11)))
        line += rng.choice((": ", " <", "\n- ", ' "', " "))
        if rng.random() < 0.6 or not constants:
            constants.append(line)
            line = rng.choice((". ", ">\n", '"\n', "\n", ", "))
    return [*constants, line + " ".join(rng.choice(WORDS) for _ in range(6)) + rng.choice(("", "\n", "."))]


def value(rng: random.Random, session: int, slot: int) -> str:
    """What fills a slot of this session alone: it holds the session's mark, in one of many forms."""
    mark, first = f"zq{session}x{slot}", rng.choice(FIRST)
    return rng.choice(
        (
            mark,
            f"{first} {mark.title()}",
            f"{mark}@example.org",
            f"https://example.org/u/{mark}?q=1",
            json.dumps({"id": mark, "tier": rng.choice(("gold", "silver"))}),
            f"{first}\n- order {mark}\n- order 2 of {first}",
            f"2026-12-0{rng.randint(1, 9)} {mark} {rng.randint(0, 9999)}",
            f"客户{mark}您好",
            f"  {mark}  ",
            f"{mark} {{slot_2}} {{name}}",
            f"{mark}," * rng.randint(1, 3),
        )
    )


def filled(constants: list[str], values: list[str]) -> str:
    return "".join(a + b for a, b in zip(constants, [*values, ""], strict=True))


@dataclass
class World:
    """Runs the sessions of one agent through the code that a request goes through, without the network."""

    home: Path
    seed: int
    sessions: int
    constants: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    replaced: int = 0
    untouched: int = 0
    champion: str = ""

    def run(self) -> None:
        rng = random.Random(self.seed)
        self.constants = skeleton(rng)
        self._serving = Serving()
        self._runtime = Runtime(
            lambda _agent: self._serving,
            self.records.append,
            Ids(rng),
            lambda: NOW,
            lambda: 0.0,
            Prices(),
            classify,
        )
        files = PromptFiles(self.home)
        book = PromptBook(files, Metrics(), now=lambda: NOW, rules=LearnRules())
        book.start()
        numbers = iter(range(self.sessions))
        for number in (next(numbers) for _ in range(40)):
            self._request(book, rng, number)
        book.close()
        learned = files.learned()
        if not learned:
            return
        for one in learned:
            self._no_mark("a template", one.text, None)
        (self.champion, template) = self._accept(files, learned[0].name, learned[0].text)
        book = PromptBook(files, Metrics(), now=lambda: NOW, rules=LearnRules())
        for number in numbers:
            self._request(book, rng, number, template)
        for record in self.records:
            if isinstance(record, PromptSeen):
                self._no_mark("a reported default", record.text, None)
            elif isinstance(record, Interaction | SessionStart):
                self._no_mark("a record", repr(record), int(record.session_id))

    def _accept(self, files: PromptFiles, name: str, text: str) -> tuple[str, str]:
        files.accept("default", name, new_name="main", now=NOW, by="test")
        better = "Be brief.\n" + text
        hashes = (content_hash(text),)
        self._serving = Serving(version="v1.0", prompts={"main": better}, baselines={"main": hashes})
        return better, text

    def _request(self, book: PromptBook, rng: random.Random, number: int, template: str = "") -> None:
        values = [value(rng, number, slot) for slot in range(len(self.constants) - 1)]
        text, odd = filled(self.constants, values), rng.random()
        fits = bool(template)
        if odd < 0.05 and template:
            # The developer's own words changed: this is no longer the prompt that was accepted.
            text, fits = text.replace(self.constants[0][:12], "", 1), False
        elif 0.05 <= odd < 0.08:
            text, fits = f"Another task for {values[0]}.", False
        said: list[dict[str, Any]] = [{"role": "system", "content": text}]
        said.append({"role": "user", "content": f"hello from {values[0]}"})
        body = json.dumps({"model": "m", "messages": said}, ensure_ascii=odd < 0.5).encode()
        session = Session(self._runtime, Scope(session_id=str(number), user=f"u{number}"))
        view = read_body(body)
        sent = book.apply(session, "default", f"u{number}", view, body)
        call = session.call(model="m", messages=wire_messages(view.said))
        call.reply(text=f"Dear {values[0]}, done.")
        call.finish()
        self._no_mark("another session", sent.decode("utf-8"), number)
        if sent is body:
            self.untouched += 1
            if fits:
                self.leaks.append(f"session {number} fits and was not replaced")
            return
        self.replaced += 1
        expected = json.loads(body)
        expected["messages"][0]["content"] = "Be brief.\n" + text
        if not fits or json.loads(sent) != expected:
            self.leaks.append(f"session {number} was sent something else than its own text")

    def _no_mark(self, where: str, text: str, own: int | None) -> None:
        found = {int(number) for number in MARK.findall(text)}
        if found - {own}:
            self.leaks.append(f"{where} holds values of sessions {sorted(found - {own})[:5]}")

    def traces(self) -> dict[str, Trace]:
        """What was recorded, by session."""
        starts = {r.session_id: r for r in self.records if isinstance(r, SessionStart)}
        calls = {r.session_id: r for r in self.records if isinstance(r, Interaction)}
        return {name: Trace(start=starts[name], interactions=(calls[name],)) for name in starts}
