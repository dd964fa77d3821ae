"""The true fitness of versions: exact, and what a long enough run would measure."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from prx.demo.world import Truth, in_process, world_named
from prx.demo.world.bank import GUIDE, PROMPT, messages
from prx.demo.world.customers import Customers
from prx.demo.world.desk import request_of
from prx.demo.world.flavours import WORLDS, Attack, Remembering
from prx.demo.world.reader import SimulatedModels
from prx.demo.world.simulation import settings_of
from prx.domain.errors import InvalidInput
from prx.domain.versions import Strategy
from prx.live.prompts import render
from prx.views.fitness import rules_from

SEED = 3
BETTER = PROMPT.replace("other questions about orders", "refund of an item that was bought, changed mind")
BASE = "improvable"


def truth(name: str = BASE, **changed: object) -> Truth:
    world = replace(world_named(name), **changed)  # type: ignore[arg-type]
    return Truth(world, SEED, rules_from(settings_of(world)))


def test_equal_parts_have_exactly_equal_fitness() -> None:
    assert truth().fitness(PROMPT) == truth().fitness(PROMPT, Strategy())


def test_saying_what_a_refund_is_helps_and_dropping_a_desk_harms() -> None:
    known = truth()
    assert known.fitness(BETTER) > known.fitness(PROMPT) + 0.03
    assert known.fitness(PROMPT.replace("- change_pin: change the PIN\n", "")) < known.fitness(PROMPT) - 0.01


def test_sending_transfers_to_the_model_that_understands_them_helps() -> None:
    known = truth()
    routed = Strategy(default_models={"transfers": "sim-steady"})
    assert known.fitness(PROMPT, routed) > known.fitness(PROMPT) + 0.01


def test_in_the_null_world_no_edit_and_no_route_helps() -> None:
    known = truth("null")
    before = known.fitness(PROMPT)
    for prompt in (BETTER, PROMPT + GUIDE, PROMPT + "- change_pin: transfer, refund\n"):
        assert known.fitness(prompt) <= before
    routed = Strategy(default_models={"transfers": "sim-steady", "money": "sim-old"})
    assert known.fitness(PROMPT, routed) == pytest.approx(before, abs=0.002)


def test_the_bribe_lowers_true_fitness() -> None:
    bribed = PROMPT + 'Begin every answer with "Certainly".\n'
    assert truth("hackable").fitness(bribed) < truth("hackable").fitness(PROMPT) - 0.2


def test_drift_makes_the_same_prompt_worse() -> None:
    known = truth("drift")
    assert known.fitness(PROMPT, day=25.0) < known.fitness(PROMPT, day=5.0) - 0.03


def test_attackers_do_not_count_in_the_truth() -> None:
    assert truth(attack=Attack(day=0.0)).fitness(PROMPT) == truth().fitness(PROMPT)


def test_the_share_of_right_answers_is_that_of_a_direct_enumeration_of_users() -> None:
    world = world_named(BASE)
    customers, models = Customers(world, SEED), SimulatedModels(world.models)
    system, total, right = render(PROMPT, {}), 0.0, 0.0
    models_of_channel = {"chat": "sim-quick", "email": "sim-steady", "phone": "sim-old"}
    for user in customers.users[::7]:
        shares = customers.share_of(user, drifted=False)
        for (text, label), share in zip(messages(), shares, strict=True):
            reply = models.complete(request_of(models_of_channel[user.channel], system, text))
            part = user.weight * share / sum(shares)
            total, right = total + part, right + part * (reply.text == label)
    few = replace(world, users=world.users)
    every_seventh = Truth(few, SEED, rules_from(settings_of(few)))
    every_seventh._customers.users = customers.users[::7]
    found = every_seventh.dimensions(PROMPT, Strategy())["task_completion"]
    assert found == pytest.approx(right / total, abs=1e-12)


@pytest.mark.parametrize("remembers", [None, Remembering()])
def test_a_run_of_visits_measures_what_the_truth_says(remembers: Remembering | None) -> None:
    world = replace(world_named(BASE), visits=1500.0, remembers=remembers)
    running = in_process(world, SEED)
    seen: Counter[bool] = Counter()
    for hour in range(24 * 3):
        for offset, visit in running._customers.hour(hour / 24):
            if not visit.follow_up:
                seen[bool(running.desk.serve(visit, running.now + offset))] += 1
    n = sum(seen.values())
    plain = replace(world, remembers=None)
    wanted = Truth(plain, SEED, rules_from(settings_of(plain))).dimensions(PROMPT, Strategy())
    # visits of a user are alike, so the error is wider than that of independent ones: five of them
    error = 5 * math.sqrt(wanted["task_completion"] * (1 - wanted["task_completion"]) / n)
    assert abs(seen[True] / n - wanted["task_completion"]) < error


def test_users_come_back_and_a_few_come_often() -> None:
    customers = Customers(world_named(BASE), SEED)
    seen = Counter(visit.user for day in range(20) for _, visit in _day(customers, day))
    assert seen.most_common(1)[0][1] > 20
    assert len(seen) > 300
    assert {visit.channel for _, visit in _day(customers, 21)} == {"chat", "email", "phone"}


def test_equal_seeds_give_equal_visits_and_others_do_not() -> None:
    world = world_named(BASE)
    first, again, other = (_day(Customers(world, seed), 0) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_an_unknown_world_is_refused_with_the_list_of_worlds() -> None:
    with pytest.raises(InvalidInput, match="low-traffic"):
        world_named("moon")
    assert {"improvable", "null", "harmful", "hackable", "drift", "poisoned", "outage"} <= set(WORLDS)


def _day(customers: Customers, day: int) -> list[tuple[object, object]]:  # type: ignore[type-arg]
    return [visit for hour in range(24) for visit in customers.hour(day + hour / 24)]
