"""From traffic to edit in a world whose reader only knows what the prompt says."""

import random
import statistics
from collections.abc import Sequence

from propose_desk import NOW

from prx.analyze.analyze import examine
from prx.domain.changes import PromptPatch, apply_prompt_ops
from prx.domain.codec import content_hash
from prx.domain.ids import Ids
from prx.domain.promptlines import label_of
from prx.domain.records import Feedback, FeedbackName, Interaction, Message, SessionStart, Trace
from prx.domain.versions import PromptSet
from prx.domain.words import words
from prx.propose.draft import Current
from prx.propose.propose import consider

INTENTS = tuple(f"topic{letter}" for letter in "abcdefgh")
TELLING = {
    intent: tuple(f"{intent[-1] * 2}{a}{b}ing" for a in "klmn" for b in "opq")[:7] for intent in INTENTS
}
COMMON = tuple(f"plain{a}{b}" for a in "abcde" for b in "fghij")


def start_prompt(rng: random.Random) -> str:
    """Each line knows two of its topic's seven words, and two topics know none."""
    lines = []
    for n, intent in enumerate(INTENTS):
        known = rng.sample(TELLING[intent], 2 if n % 4 else 0)
        lines.append(f"- {intent}: requests about {' '.join(known) or 'this'}")
    return "Answer with the topic of the request.\n" + "\n".join(lines) + "\n"


def request(intent: str, rng: random.Random) -> str:
    said = [*rng.sample(TELLING[intent], 2), *rng.sample(COMMON, 4)]
    rng.shuffle(said)
    return " ".join(said)


def read(prompt: str, text: str) -> str:
    """The line that shares most words with the request; the first topic when none does."""
    said = set(words(text))
    lines = [(label, line) for line in prompt.splitlines() if (label := label_of(line))]
    return max(lines, key=lambda pair: len(said & set(words(pair[1]))))[0]


def accuracy(prompt: str) -> float:
    rng = random.Random(99)
    asked = [(intent, request(intent, rng)) for intent in INTENTS for _ in range(60)]
    return sum(read(prompt, text) == intent for intent, text in asked) / len(asked)


def week(prompt: str, rng: random.Random, *, null: bool) -> list[Trace]:
    """Sessions of 300 users; half of the wrong answers are corrected, a third of the right ones liked."""
    traces = []
    for n in range(900):
        intent = rng.choice(INTENTS)
        text = " ".join(rng.sample(COMMON, 6)) if null else request(intent, rng)
        given = rng.choice(INTENTS) if null else read(prompt, text)
        told: tuple[str, float | str] | None = None
        if given != intent and rng.random() < 0.5:
            told = (FeedbackName.CORRECTION, intent)
        elif given == intent and rng.random() < 0.33:
            told = ("expected", intent)
        user = f"u{rng.randrange(300)}"
        traces.append(session(n, user, text, given=given, told=told, prompt=prompt))
    return traces


def session(
    n: int, user: str, text: str, *, given: str, told: tuple[str, float | str] | None, prompt: str
) -> Trace:
    name = f"s{n}"
    feedback = (
        ()
        if told is None
        else (
            Feedback(
                record_id=f"f{n}", at=NOW, target_kind="session", target=name, name=told[0], value=told[1]
            ),
        )
    )
    return Trace(
        start=SessionStart(record_id=f"r{n}", at=NOW, session_id=name, user=user),
        interactions=(
            Interaction(
                record_id=f"i{n}",
                at=NOW,
                session_id=name,
                model="m",
                intent=given,
                messages=(Message(role="user", content=text),),
                response=given,
                prompts={"main": content_hash(prompt)},
            ),
        ),
        feedback=feedback,
    )


def evolved(seed: int, *, null: bool = False, weeks: int = 2) -> tuple[str, str, int]:
    """Prompt before and after some weeks in which the first draft of each week is applied untested."""
    rng = random.Random(seed)
    ids = Ids(random.Random(seed))
    before = prompt = start_prompt(rng)
    edits = 0
    for _ in range(weeks):
        traces = {t.start.session_id: t for t in week(prompt, rng, null=null)}
        found = examine(traces.values(), {}, agent="default", now=NOW, ids=ids, prompts={"main": prompt})
        drafts = consider(
            found.findings,
            current=Current(prompts=PromptSet(texts={"main": prompt})),
            traces=traces.get,
            ids=ids,
            now=NOW,
            rng=rng,
        ).drafts
        for draft in drafts[:1]:
            assert isinstance(draft.change, PromptPatch)
            prompt = apply_prompt_ops(prompt, draft.change.ops)
            edits += 1
    return before, prompt, edits


def interval(values: Sequence[float]) -> tuple[float, float]:
    mean, half = statistics.mean(values), 2.57 * statistics.stdev(values) / len(values) ** 0.5
    return mean - half, mean + half


def test_edits_written_from_traffic_raise_accuracy_on_fresh_requests() -> None:
    gains = []
    for seed in range(6):
        before, after, _ = evolved(seed)
        gains.append(accuracy(after) - accuracy(before))
    assert interval(gains)[0] > 0.03
    assert min(gains) >= 0


def test_where_requests_tell_nothing_edits_are_rare() -> None:
    assert sum(evolved(seed, null=True, weeks=1)[2] for seed in range(8)) <= 1
