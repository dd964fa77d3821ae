"""Where values come from, and what is refused."""

from pathlib import Path

import pytest

from prx.domain.errors import SettingsError
from prx.settings import load, plain, settings_hash
from prx.settings.reference import sections


def write(folder: Path, text: str) -> Path:
    path = folder / "prx.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str, **env: str) -> list[str]:
    write(folder, text)
    with pytest.raises(SettingsError) as caught:
        load(env=env, folder=folder)
    return str(caught.value).splitlines()


def test_without_a_file_the_defaults_are_those_of_the_source_documents(tmp_path: Path) -> None:
    settings = load(env={}, folder=tmp_path)
    assert (settings.enabled, settings.auto_apply, settings.file) == (False, False, None)
    assert (settings.l1.enabled, settings.l1.schedule, settings.l1.compaction_threshold) == (
        True,
        "after_session",
        10,
    )
    assert (settings.l1.cluster_similarity, settings.l1.min_access_count) == (0.8, 2)
    l2, l3 = settings.l2, settings.l3
    assert (l2.enabled, l2.schedule, l2.min_samples, l2.confidence_level) == (False, "weekly", 50, 0.95)
    assert l2.max_concurrent_experiments == 2
    assert (l3.enabled, l3.schedule, l3.require_approval) == (False, "monthly", True)
    assert (l3.rollback_window_hours, l3.max_policy_changes_per_cycle) == (168, 3)
    pipeline, safety = settings.pipeline, settings.safety
    assert (pipeline.gate_check_interval_secs, pipeline.min_data_points, pipeline.health_check_url) == (
        3600,
        100,
        "",
    )
    assert (safety.rollback_enabled, safety.rollback_window_hours, safety.sanity_check_timeout_secs) == (
        True,
        168,
        30,
    )
    assert (safety.regression_monitoring_hours, safety.max_regression_threshold) == (24, 0.1)
    plan, auto = settings.experiments, settings.experiments.auto_converge
    assert (plan.enabled, plan.default_duration_hours, plan.min_sample_size) == (True, 168, 100)
    assert (plan.traffic_split, plan.confidence_level, plan.min_effect_size) == (0.5, 0.95, 0.02)
    assert (auto.enabled, auto.check_interval_hours, auto.max_duration_hours) == (True, 24, 720)
    assert (plan.ramp, plan.effect_scale, plan.planned_sample, plan.spending) == (
        1.0,
        "absolute",
        "power",
        "hsd:-4",
    )
    assert (plan.min_duration_hours, plan.outcome_window_hours, plan.act_on_futility) == (24, 24, False)
    fitness = settings.fitness
    assert (fitness.evaluation_window_hours, fitness.min_sessions_for_score) == (24, 10)
    assert list(fitness.weights.as_dict().values()) == [0.30, 0.25, 0.15, 0.10, 0.10, 0.10]
    assert (fitness.thresholds.minimum_acceptable, fitness.thresholds.regression_delta) == (0.5, 0.05)
    log = settings.decision_log
    assert (log.enabled, log.format, log.retention_days, log.max_entries) == (True, "jsonl", 180, 10000)
    assert not settings.models.judge.configured


def test_a_file_with_every_default_written_out_is_the_same_configuration(tmp_path: Path) -> None:
    pages = [page for page in sections() if not page.header.startswith("[[") and "NAME" not in page.header]
    text = "\n".join(
        "\n".join((page.header, *(f"{row.name} = {row.default}" for row in page.rows))) for page in pages
    )
    write(tmp_path, text)
    assert settings_hash(load(env={}, folder=tmp_path)) == settings_hash(load(env={}, folder=tmp_path / ".."))
    assert len([row for page in pages for row in page.rows]) > 100


def test_the_explicit_file_wins_over_the_variable_and_that_over_the_folder(tmp_path: Path) -> None:
    files = {}
    for name, number in (("prx.toml", 11), ("variable.toml", 12), ("explicit.toml", 13)):
        files[name] = tmp_path / name
        files[name].write_text(f"[self_evolution.l2]\nmin_samples = {number}\n")
    env = {"PRX_CONFIG": str(files["variable.toml"])}
    assert load(env={}, folder=tmp_path).l2.min_samples == 11
    assert load(env=env, folder=tmp_path).l2.min_samples == 12
    assert load(files["explicit.toml"], env=env, folder=tmp_path).l2.min_samples == 13


@pytest.mark.parametrize("source", ["--config", "PRX_CONFIG"])
def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path, source: str) -> None:
    explicit = tmp_path / "gone.toml" if source == "--config" else None
    env = {} if explicit else {"PRX_CONFIG": "gone.toml"}
    with pytest.raises(SettingsError, match=f"no file .*gone.toml.*{source}"):
        load(explicit, env=env, folder=tmp_path)


def test_the_environment_wins_over_the_file_in_any_section(tmp_path: Path) -> None:
    write(tmp_path, "[evolution]\nenabled = true\n[evolution.experiments]\ntraffic_split = 0.5\n")
    env = {
        "PRX__EXPERIMENTS__TRAFFIC_SPLIT": "0.25",
        "PRX__SELF_EVOLUTION__EXPERIMENTS__AUTO_CONVERGE__ENABLED": "false",
        "PRX__L3__SCHEDULE": "0 3 * * *",
        "PRX__METRICS__REFUNDS__BETTER": "lower",
        "PRX__ENABLED": "false",
        "PRX_HOME": "/elsewhere",
    }
    settings = load(env=env, folder=tmp_path)
    assert (settings.enabled, settings.experiments.traffic_split) == (False, 0.25)
    assert not settings.experiments.auto_converge.enabled
    assert settings.l3.schedule == "0 3 * * *"
    assert settings.metrics["refunds"].better == "lower"


def test_an_interval_in_seconds_is_the_schedule_also_when_it_replaces_the_files(tmp_path: Path) -> None:
    write(tmp_path, '[self_evolution.l1]\ninterval = 7200\n[self_evolution.l2]\nschedule = "daily"\n')
    settings = load(env={"PRX__L2__INTERVAL": "3600"}, folder=tmp_path)
    assert (settings.l1.schedule, settings.l2.schedule) == ("7200", "3600")


def test_values_may_stand_in_the_environment_or_in_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "split.txt").write_text("0.3\n")
    write(
        tmp_path,
        '[self_evolution.models.judge]\nbase_url = "http://x/v1"\nmodel = "env:MODEL"\nkey = "env:KEY"\n'
        '[self_evolution.experiments]\ntraffic_split = "file:split.txt"\n',
    )
    settings = load(env={"MODEL": "m", "KEY": "s3cret"}, folder=tmp_path)
    assert (settings.models.judge.model, settings.models.judge.key) == ("m", "s3cret")
    assert settings.experiments.traffic_split == 0.3
    assert settings.models.judge.configured
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(plain(settings))


def test_a_missing_secret_does_not_stop_an_operator_from_rolling_back(tmp_path: Path) -> None:
    write(tmp_path, '[self_evolution.models.judge]\nbase_url = "http://x/v1"\nmodel = "m"\nkey = "env:KEY"\n')
    settings = load(env={}, folder=tmp_path)
    assert settings.models.judge.key == ""
    assert settings.notes == (
        'prx.toml:4: models.judge.key = "env:KEY": the environment has no KEY; it counts as not configured',
    )


@pytest.mark.parametrize("value", ["env:GONE", "file:gone.txt"])
def test_a_missing_value_that_is_no_secret_is_refused(tmp_path: Path, value: str) -> None:
    [line] = refused(tmp_path, f'[self_evolution.experiments]\ntraffic_split = "{value}"\n')
    assert line.startswith(f'prx.toml:2: experiments.traffic_split = "{value}": ')
    assert value.partition(":")[2] in line


def test_the_judge_may_be_a_checker_in_one_word(tmp_path: Path) -> None:
    write(tmp_path, '[self_evolution.models]\njudge = "checker:exact"\n')
    assert load(env={}, folder=tmp_path).models.judge.checker == "exact"


def test_own_checks_and_metrics_are_read_into_types(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[[self_evolution.gate.checks]]\nname = "a"\ncommand = ["make", "check"]\n'
        '[[self_evolution.gate.checks]]\nname = "b"\ncommand = "true"\nrequired = false\ntimeout_s = 5\n'
        '[self_evolution.metrics.refunds]\nbetter = "lower"\nrole = "guardrail"\nmargin = 0.1\n',
    )
    settings = load(env={}, folder=tmp_path)
    first, second = settings.gate.checks
    assert (first.command, first.required, first.timeout_s) == (("make", "check"), True, 60)
    assert (second.command, second.required, second.timeout_s) == (("true",), False, 5)
    assert settings.metrics["refunds"].role == "guardrail"


def test_every_fault_is_told_at_once_with_file_line_key_and_range(tmp_path: Path) -> None:
    text = """# comment
[self_evolution]
enabled = "yes"
[self_evolution.experiments]   # [not a table]
min_sample_sizes = 4
traffic_split = 1.4
default_duration_hours = -3
effect_scale = "percent"
[[self_evolution.gate.checks]]
name = "a"
comand = ["x"]
[[self_evolution.gate.checks]]
name = '''
b
'''
timeout_s = 0
"""
    assert refused(tmp_path, text) == [
        'prx.toml:3: enabled must be true or false, not "yes"',
        "prx.toml:5: unknown key experiments.min_sample_sizes; did you mean min_sample_size?",
        "prx.toml:6: experiments.traffic_split = 1.4 is not accepted; allowed: a number above 0 and below 1",
        "prx.toml:7: experiments.default_duration_hours = -3 is not accepted; "
        "allowed: a number above 0 and up to 87600",
        'prx.toml:8: experiments.effect_scale = "percent" is not accepted; allowed: "absolute", "relative"',
        "prx.toml:11: unknown key gate.checks[0].comand; did you mean command?",
        "prx.toml:16: gate.checks[1].timeout_s = 0 is not accepted; allowed: a number above 0",
    ]


def test_weights_that_do_not_sum_to_one_are_refused_with_their_sum(tmp_path: Path) -> None:
    [line] = refused(tmp_path, "[self_evolution.fitness.weights]\nuser_satisfaction = 0.0\n")
    assert line.startswith("prx.toml:1: the fitness weights sum to 0.9, they must sum to 1")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[self_evolution.experiments]\nmin_sample_size = 100.5", "a whole number of 2 or more, not 100.5"),
        ("[self_evolution.experiments]\nmin_sample_size = true", "whole number of 2 or more, not true"),
        ("[self_evolution.experiments]\nconfidence_level = nan", "confidence_level = nan is not accepted"),
        (f"[self_evolution.experiments]\ntraffic_split = {'9' * 400}", "split must be a number above 0"),
        ("[self_evolution.l1]\nschedule = 5", 'l1.schedule = 5 is not accepted; allowed: "after_session"'),
        ('[self_evolution.l1]\nschedule = "0 0 31 2 *"', "is not accepted"),
        ("[self_evolution.l1]\nschedule = 3600\ninterval = 60", "l1.schedule and interval are the same key"),
        ("[self_evolution]\nl1 = 3", "l1 must be a table of keys, not 3"),
        ("[self_evolution.gate]\nchecks = 3", "gate.checks must be a list"),
        ("[self_evolution.metrics]\nrefunds = 3", "metrics.refunds must be a table"),
        ("[self_evolution.fitness]\ntarget_ms = 900\nceiling_ms = 800", "prx.toml:3: fitness.ceiling_ms is"),
        ("[self_evolution.fitness]\ntarget_tokens = 900", "must both be numbers or both be"),
        ("[self_evolution.experiments]\nmin_duration_hours = 800", "max_duration_hours is 720"),
        ('[self_evolution.models.judge]\nmodel = "m"', "models.judge has no base_url"),
        ('[self_evolution.models.agent]\nchecker = "x"', "only the judge may be a checker"),
        ('[[self_evolution.gate.checks]]\nname = "a"', "needs a name and a command"),
        ("[l1]\nenabled = true", "prx.toml:1: l1 must stand below [self_evolution]"),
        ("[self_evoluton]\nenabled = true", "did you mean self_evolution?"),
        ("[self_evolution]\n[evolution]", "are the same table"),
        ("[self_evolution", "not valid TOML"),
        ("[self_evolution.experiments]\nspending = 'hsd'", "spending"),
        ("a = " + "[" * 5000, "not valid TOML"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused(tmp_path: Path, text: str, part: str) -> None:
    assert part in "\n".join(refused(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("PRX__L2__MIN_SAMPLE", "3", "no key is called l2.min_sample; did you mean min_samples?"),
        ("PRX__L2__MIN_SAMPLES", "-3", "PRX__L2__MIN_SAMPLES: l2.min_samples = -3 is not accepted"),
        ("PRX__L2__MIN_SAMPLES", "many", 'must be a whole number of 1 or more, not "many"'),
        ("PRX__L2__MIN_SAMPLES__X", "3", "no key is called l2.min_samples.x"),
        ("PRX__L2", "3", "PRX__L2: l2 must be a table"),
        ("PRX__", "3", "no key is called"),
    ],
)  # fmt: skip
def test_a_bad_variable_is_refused_by_its_name(tmp_path: Path, name: str, value: str, part: str) -> None:
    assert part in "\n".join(refused(tmp_path, "", **{name: value}))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "prx.toml").write_bytes("[self_evolution]\n# caf\u00e9".encode("latin-1"))
    with pytest.raises(SettingsError, match="not UTF-8"):
        load(env={}, folder=tmp_path)


def test_the_hash_follows_every_value_but_not_a_secrets_content_or_the_place(tmp_path: Path) -> None:
    def hash_of(text: str, name: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        write(folder, text)
        return settings_hash(load(env={}, folder=folder))

    one = hash_of('[self_evolution.models.judge]\nkey = "a"\n', "one")
    assert one == hash_of('[evolution.models.judge]\nkey = "b"\n', "two")
    assert one != hash_of("", "three")
    assert hash_of("", "four") != hash_of("[self_evolution.l2]\nmin_samples = 51\n", "five")
