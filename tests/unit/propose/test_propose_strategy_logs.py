import pytest

from prx.domain.answers import NotEnoughData
from prx.domain.changes import StrategyPatch
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.times import utc_now
from prx.domain.versions import RouterWeights, Strategy
from prx.propose.draft import PastChange
from prx.propose.fingerprint import fingerprint
from prx.propose.strategylogs import ChannelLog, StrategyLog, WaitLog, log_steps, strategy_drafts
from prx.propose.strategystep import Share, strategy_step

STRATEGY = Strategy(timeouts={"search": 20.0}, concurrency={"web": 10}, explore=0.1)
FULL = Share(95, 100, 0.89, 0.98)
BAD = Share(40, 100, 0.31, 0.49)


def patches(log: StrategyLog, strategy: Strategy = STRATEGY) -> dict[str, float | str]:
    drafts = strategy_drafts(log, strategy, ())
    assert all(isinstance(draft.change, StrategyPatch) for draft in drafts)
    return {d.change.path: d.change.new for d in drafts if isinstance(d.change, StrategyPatch)}


def waits(p99: float, *, finished: int = 500, cut: int = 0) -> StrategyLog:
    return StrategyLog(waits=(WaitLog("search", finished, p99, cut),))


def test_a_timeout_falls_by_one_step_only_while_half_as_much_again_as_calls_take_stays() -> None:
    assert patches(waits(5.0)) == {"timeouts.search": 17.0}
    assert patches(waits(11.3)) == {"timeouts.search": 17.0}
    assert patches(waits(11.4)) == {}
    assert patches(waits(5.0, finished=199)) == {}


def test_a_timeout_that_cuts_calls_rises_however_quick_the_finished_ones_were() -> None:
    assert patches(waits(1.0, cut=6)) == {"timeouts.search": 23.0}
    assert patches(waits(1.0, cut=5)) == {"timeouts.search": 17.0}


@pytest.mark.parametrize(
    ("busy", "throttled", "expected"),
    [(60, 0, {"concurrency.web": 12.0}), (60, 1, {}), (0, 11, {"concurrency.web": 8.0}), (50, 0, {})],
)
def test_concurrency_follows_throttling_and_a_full_channel(
    busy: int, throttled: int, expected: dict[str, float]
) -> None:
    log = StrategyLog(channels=(ChannelLog("web", 1000, busy, throttled), ChannelLog("mail", 1000, 900, 0)))
    assert patches(log) == expected


def test_a_tool_is_switched_off_only_when_it_surely_fails_more_often_than_it_works() -> None:
    assert patches(StrategyLog(tools=(("find", BAD),))) == {"disabled_tools.find": "off"}
    assert patches(StrategyLog(tools=(("find", Share(12, 29, 0.2, 0.49)),))) == {}
    assert patches(StrategyLog(tools=(("find", Share(45, 100, 0.36, 0.55)),))) == {}
    off = Strategy(disabled_tools=("find",))
    assert patches(StrategyLog(tools=(("find", BAD),)), off) == {}


def test_exploration_only_ever_falls_and_only_when_every_model_was_seen_often() -> None:
    assert patches(StrategyLog(explored=(("a", 1000), ("b", 2000)))) == {"explore": 0.05}
    assert patches(StrategyLog(explored=(("a", 999), ("b", 2000)))) == {}
    assert patches(StrategyLog(explored=(("a", 5000),)), Strategy()) == {}


def test_the_automix_threshold_rises_when_kept_answers_are_surely_worse_than_premium_ones() -> None:
    assert patches(StrategyLog(kept=BAD, wanted=0.9)) == {"automix_threshold": 0.75}
    assert patches(StrategyLog(kept=FULL, escalated_cheap=FULL, wanted=0.85)) == {"automix_threshold": 0.65}
    assert patches(StrategyLog(kept=BAD, wanted=None)) == {}


def test_every_draft_moves_one_parameter_and_says_why_and_a_failed_one_is_not_drafted_again() -> None:
    log = StrategyLog(
        waits=(WaitLog("search", 500, 5.0, 0),),
        channels=(ChannelLog("web", 1000, 60, 0),),
        tools=(("find", BAD),),
    )
    drafts = strategy_drafts(log, STRATEGY, ())
    assert len(drafts) == 3
    for draft in drafts:
        assert draft.layer is Layer.STRATEGY
        assert draft.rationale
        assert draft.trigger.startswith("log/")
        assert draft.expected.low <= 0 <= draft.expected.high
        assert 0.4 <= draft.risk <= 1
    failed = PastChange(fingerprint(drafts[0].change), drafts[0].change, "worse")
    assert len(strategy_drafts(log, STRATEGY, (failed,))) == 2


def test_a_quiet_log_calls_for_nothing_and_says_so_of_every_family() -> None:
    steps = list(log_steps(StrategyLog(), STRATEGY))
    assert {trigger for trigger, _, _ in steps} == {"explore", "automix_threshold"}
    assert all(isinstance(step, NotEnoughData) for _, _, step in steps)


def finding(**more: object) -> Finding:
    return Finding(
        finding_id="f",
        agent="default",
        fingerprint="x",
        severity=3,
        first_seen=utc_now(),
        last_seen=utc_now(),
        summary="s",
        recommendation="r",
        layer=Layer.STRATEGY,
        **more,  # type: ignore[arg-type]
    )


def test_findings_call_for_a_default_model_more_weight_on_latency_or_a_shorter_timeout() -> None:
    costly = finding(kind=FindingKind.COST_INEFFICIENCY, intent="faq", model="large", alternative="small")
    assert strategy_step(costly, Strategy()) == StrategyPatch(
        path="default_models.faq", old=None, new="small"
    )
    slow = finding(kind=FindingKind.LATENCY_OUTLIER, model="large")
    weights = Strategy(router=RouterWeights(epsilon=0.2))
    assert strategy_step(slow, weights) == StrategyPatch(path="router.epsilon", old=0.2, new=0.23)
    slow_tool = finding(kind=FindingKind.LATENCY_OUTLIER, tool="search")
    assert strategy_step(slow_tool, STRATEGY) == StrategyPatch(path="timeouts.search", old=20.0, new=17.0)
    assert isinstance(strategy_step(slow_tool, Strategy()), NotEnoughData)
    broken = finding(kind=FindingKind.REPEATED_FAILURE)
    assert isinstance(strategy_step(broken, Strategy()), NotEnoughData)
