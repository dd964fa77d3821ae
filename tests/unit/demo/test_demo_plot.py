"""The small plot of the demo."""

from prx.demo.plot import fitness_plot


def test_every_line_fits_and_days_without_a_score_are_gaps() -> None:
    daily = [0.5 + day / 100 for day in range(60)]
    drawn = fitness_plot([*daily[:30], None, *daily[31:]], {10: "L2 promoted"}, width=80).splitlines()
    assert max(map(len, drawn)) <= 80
    assert drawn[8][8:].count("#") == 59
    assert drawn[8][8 + 30] == " "


def test_marks_stand_below_their_day_and_are_explained() -> None:
    drawn = fitness_plot([0.5] * 20, {3: "v1.1 promoted", 9: "rolled back"}, width=80).splitlines()
    assert drawn[9][8 + 2] == "1"
    assert drawn[9][8 + 8] == "2"
    assert drawn[-1].strip() == "2 day 9: rolled back"


def test_more_days_than_columns_are_drawn_in_steps() -> None:
    drawn = fitness_plot([0.1, 0.9] * 50, {99: "end"}, width=59)
    assert "per 2 days" in drawn
    assert drawn.splitlines()[8][8:].count("#") == 50


def test_no_score_is_said_and_not_drawn() -> None:
    assert fitness_plot([None, None], {}, width=80) == "no day has a fitness score"
