"""What commands print: JSON for programs, tables that fit the screen for people."""

import json
from xml.etree import ElementTree

import pytest
from cli_terminal import Terminal

LISTS = [
    "evolution status",
    "evolution history",
    "evolution history --level l2 --limit 2",
    "evolution config",
    "evolution decisions",
    "evolution decisions --last 7d --layer policy",
    "evolution decisions --id {won_decision}",
    "evolution stats --last 90d",
    "evolution experiments",
    "evolution experiments --status running",
    "evolution experiments list --layer L2",
    "evolution experiments --id {experiment}",
    "evolution experiments --id {experiment} --details",
    "evolution experiments show {running} --details",
    "evolution experiments plan",
    "evolution fitness",
    "evolution fitness --breakdown",
    "evolution fitness --history --last 5d",
    "evolution findings",
    "evolution findings --id {finding4}",
    "evolution findings --all --kind latency_outlier",
    "evolution proposals",
    "evolution proposals --state awaiting_approval",
    "evolution proposals --id {waiting}",
    "evolution versions",
    "evolution versions list",
    "evolution versions show v1.1",
    "evolution versions diff v1.0 v1.2",
    "evolution incidents",
    "evolution incidents list --open",
    "evolution digest --date 2026-11-16",
    "evolution audit verify",
    "doctor",
]


def words(terminal: Terminal, line: str) -> list[str]:
    return [word.format_map(terminal.world.ids) for word in line.split()]


@pytest.mark.parametrize("line", LISTS)
def test_every_answer_is_one_json_document(terminal: Terminal, line: str) -> None:
    answer = terminal(*words(terminal, line), "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("line", LISTS)
def test_every_table_fits_the_screen(terminal: Terminal, line: str, width: int) -> None:
    answer = terminal(*words(terminal, line), width=width)
    assert answer.code == 0
    too_long = [text for text in answer.out.splitlines() if len(text) > width]
    assert too_long == []
    assert "\x1b" not in answer.out
    assert [text for text in answer.out.splitlines() if text != text.rstrip()] == []


def test_in_a_pipe_a_row_is_a_line_and_ids_are_whole(terminal: Terminal) -> None:
    rows = terminal("evolution", "decisions").out.splitlines()
    assert len(rows) == 1 + 7
    assert terminal.world.ids["won_decision"] in rows[1]


def test_the_options_may_stand_before_the_verb(terminal: Terminal) -> None:
    before = terminal("evolution", "--json", "status")
    after = terminal("evolution", "status", "-j")
    assert before == after
    assert json.loads(before.out)["agent"] == "default"


def test_the_record_of_an_experiment_has_its_twelve_fields(terminal: Terminal) -> None:
    shown = json.loads(terminal(*words(terminal, "evolution experiments --id {running} --json")).out)
    fields = {
        "experiment_id", "decision_id", "layer", "status", "created_at", "converged_at", "control",
        "treatment", "control_sessions", "treatment_sessions", "control_fitness", "treatment_fitness",
        "p_value", "winner",
    }  # fmt: skip
    assert fields <= set(shown)
    assert (shown["p_value"], shown["winner"], shown["status"]) == (None, None, "running")


def test_format_json_is_the_same_as_json(terminal: Terminal) -> None:
    assert terminal("evolution", "decisions", "--format", "json") == terminal(
        "evolution", "decisions", "--json"
    )


def test_stats_look_like_the_source_documents(terminal: Terminal) -> None:
    header, memory, prompt, strategy = terminal("evolution", "stats").out.splitlines()
    assert header.split() == ["Layer", "Proposed", "Approved", "Rejected", "Deferred", "Approval", "Rate"]
    assert prompt.split() == ["prompt", "(L2)", "3", "2", "1", "0", "66.7", "%"]
    assert memory.startswith("memory (L1)")
    assert strategy.endswith("0.0 %")


def test_of_all_versions_only_the_serving_one_is_shown_as_serving(terminal: Terminal) -> None:
    header, *rows = terminal("evolution", "versions").out.splitlines()
    assert "Status" in header
    assert "live" not in {word for row in rows for word in row.split()}
    assert [row.split()[0] for row in rows if "current" in row.split()] == ["v1.1"]
    assert [row.split()[0] for row in rows if "earlier" in row.split()] == ["v1.0"]
    assert "Status:    current" in terminal("evolution", "versions", "show", "v1.1").out
    assert "Status:    earlier" in terminal("evolution", "versions", "show", "v1.0").out


def test_fitness_prints_the_table_of_the_source_documents(terminal: Terminal) -> None:
    lines = terminal("evolution", "fitness", width=80).out.splitlines()
    assert lines[0].startswith("Current Fitness Score: 0.")
    assert lines[2] == "Dimension            Score   Weight  Contribution"
    assert lines[3].startswith("response_relevance   0.")
    assert any(line.startswith("Trend (last 7 days): ") for line in lines)


@pytest.mark.parametrize("how", ["option", "variable"])
def test_fitness_speaks_spanish(terminal: Terminal, how: str) -> None:
    if how == "variable":
        terminal.env["PRX_LANG"] = "es_ES.UTF-8"
    arguments = ("evolution", "fitness", *(("--lang", "es") if how == "option" else ()))
    out = terminal(*arguments).out
    assert out.startswith("Puntuacion de aptitud actual: 0.")
    assert "Tendencia (ultimos 7 dias): " in out


def test_fitness_is_scored_before_it_is_shown(terminal: Terminal) -> None:
    terminal("evolution", "fitness")
    assert terminal.engine.asked == [("score", {})]


def test_details_show_plan_looks_bounds_both_p_values_and_corrections(terminal: Terminal) -> None:
    out = terminal(*words(terminal, "evolution experiments --id {experiment} --details"), width=200).out
    for part in ("p naive", "Bound", "Interval", "Validity", "Which correction moved which number", "hsd:-4"):
        assert part in out
    assert "no look: 31 and 29 sessions, 100 needed in each arm" in out


def test_a_plot_shows_interval_estimate_and_no_effect(terminal: Terminal) -> None:
    out = terminal(*words(terminal, "evolution experiments --id {experiment} --plot"), width=80).out
    [third] = [line for line in out.splitlines() if line.lstrip().startswith("3  ")]
    assert third[24:].index("|") < third[24:].index("-") < third[24:].index("o")


def test_a_plot_can_be_written_as_svg(terminal: Terminal) -> None:
    file = terminal.folder / "looks.svg"
    answer = terminal(*words(terminal, "evolution experiments --id {experiment} --plot"), str(file))
    assert (answer.code, answer.out.splitlines()[0]) == (0, f"wrote {file}")
    root = ElementTree.fromstring(file.read_text())
    assert root.tag.endswith("svg")
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 2


def test_recorded_text_cannot_steer_the_terminal(terminal: Terminal) -> None:
    from prx.cli.output import Column, table, to_json, wrapped

    unseen = "\N{TAG LATIN SMALL LETTER A}\N{ZERO WIDTH SPACE}\N{RIGHT-TO-LEFT MARK}\N{LINE SEPARATOR}"
    hostile = f"\x1b[2Jboo\x9b31m\u202e{unseen}"
    for shown in (table((Column("a"),), [(hostile,)], 80), wrapped(hostile, 80), to_json({"a": hostile})):
        assert not set(shown) & {"\x1b", "\x9b", "\u202e", *unseen}
    assert json.loads(to_json({"a": hostile}))["a"] == hostile


def test_wide_characters_keep_columns_aligned() -> None:
    from rich.cells import cell_len

    from prx.cli.output import Column, table

    rows = table((Column("Name"), Column("n", right=True)), [("日本語の題", "1"), ("plain", "22")], 40)
    assert len({cell_len(row) for row in rows.splitlines()}) == 1


def test_where_nothing_fits_nothing_is_cut_off() -> None:
    from prx.cli.output import Column, table

    rows = table((Column("a"), Column("b", wraps=True)), [("x" * 60, "words that may wrap")], 40)
    assert "x" * 60 in rows
    assert " ".join(rows.replace("x", "").split()[2:]) == "words that may wrap"


@pytest.mark.parametrize("line", ["decisions", "proposals", "versions"])
def test_lists_of_changes_fit_sixty_columns_and_break_no_word(terminal: Terminal, line: str) -> None:
    narrow = terminal("evolution", line, width=60).out
    assert max(map(len, narrow.splitlines())) <= 60
    told = " ".join(text for text in narrow.splitlines() if text.startswith("    ")).split()
    whole = terminal("evolution", line).out.split()
    assert told
    assert [word for word in told if word not in whole and not word.endswith("…")] == []
