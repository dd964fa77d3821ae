"""Every configuration key with its default; the reference page is made from these declarations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from prx.settings import keys
from prx.settings.gateway import GatewayPolicy
from prx.settings.keys import key

_NO_METRICS: Mapping[str, "Metric"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemoryLayer:
    """Memory (L1): when it may propose, and how it tends what the agent remembers."""

    enabled: bool = key(True, "Let this layer propose changes")
    schedule: str = key(
        "after_session",
        "When this layer may propose; `interval` in seconds is the same key",
        keys.SCHEDULE,
        alias="interval",
    )
    compaction_threshold: int = key(
        10, "Clusters with more entries than this are summarised", keys.Between(2)
    )
    cluster_similarity: float = key(0.8, "Similarity from which entries share a topic", keys.SHARE)
    min_access_count: int = key(2, "Confirmed uses that keep an entry from being pruned", keys.COUNT_OR_ZERO)
    risk_threshold: float = key(0.5, "A memory change with less risk than this needs no person", keys.SHARE)


@dataclass(frozen=True, slots=True)
class PromptLayer:
    """Prompts (L2): when they may be proposed for, and how much evidence that takes."""

    enabled: bool = key(False, "Let this layer propose changes")
    schedule: str = key(
        "weekly",
        "When this layer may propose; `interval` in seconds is the same key",
        keys.SCHEDULE,
        alias="interval",
    )
    min_samples: int = key(50, "Sessions that a prompt needs before a change to it is proposed", keys.COUNT)
    confidence_level: float = key(
        0.95,
        "Confidence that an experiment on a prompt needs, if above experiments.confidence_level",
        keys.Between(0.5, 1, open_high=True),
    )
    max_concurrent_experiments: int = key(
        2,
        "Experiments of one agent at a time over all layers; one per layer is a fixed limit",
        keys.Between(1, 3),
    )


@dataclass(frozen=True, slots=True)
class StrategyLayer:
    """Strategy (L3): routing and limits; a person decides unless told otherwise."""

    enabled: bool = key(False, "Let this layer propose changes")
    schedule: str = key(
        "monthly",
        "When this layer may propose; `interval` in seconds is the same key",
        keys.SCHEDULE,
        alias="interval",
    )
    require_approval: bool = key(True, "Always ask a person before a strategy change, also with auto_apply")
    rollback_window_hours: float = key(
        168.0, "Hours after which an applied strategy change is confirmed or undone", keys.HOURS
    )
    max_policy_changes_per_cycle: int = key(3, "Strategy proposals that one cycle may make", keys.COUNT)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """When the engine looks for work, and what must hold before it starts."""

    gate_check_interval_secs: int = key(
        3600,
        "Seconds between two looks of `prx worker` for due work; what guards the agents runs in between",
        keys.Between(1, 86400),
    )
    min_data_points: int = key(
        100, "Interactions that must be recorded before a proposal is made", keys.COUNT_OR_ZERO
    )
    health_check_url: str = key(
        "", "Address that must answer 200 before a cycle starts; empty: not asked", keys.URL
    )
    analyze_schedule: str = key("daily", "When the records are analysed", keys.SCHEDULE)
    evolve_schedule: str = key(
        "259200", "When proposals are made from findings (every 3 days)", keys.SCHEDULE
    )


@dataclass(frozen=True, slots=True)
class Safety:
    """What is watched after a change and when the change is undone."""

    rollback_enabled: bool = key(
        True, "Undo a change by itself when it does harm; false only raises the incident"
    )
    rollback_window_hours: float = key(
        168.0, "Hours after which an applied change is confirmed or undone", keys.HOURS
    )
    sanity_check_timeout_secs: float = key(
        30.0, "Seconds that a check before or after a change may take", keys.POSITIVE
    )
    regression_monitoring_hours: float = key(24.0, "Hours of close watch after a change", keys.HOURS)
    max_regression_threshold: float = key(
        0.1, "Drop of one metric, in points of 0 to 1, that undoes a change", keys.OPEN_SHARE
    )


@dataclass(frozen=True, slots=True)
class AutoConverge:
    """Who ends an experiment, and how often it is looked at."""

    enabled: bool = key(True, "End an experiment by itself when its result is conclusive")
    check_interval_hours: float = key(24.0, "Hours between two looks at the results", keys.HOURS)
    max_duration_hours: float = key(720.0, "Hours after which an experiment ends in any case", keys.HOURS)


@dataclass(frozen=True, slots=True)
class Experiments:
    """Live comparison of a proposal with the current version."""

    enabled: bool = key(True, "Compare changes live before they are kept")
    default_duration_hours: float = key(
        168.0, "Planned hours; an experiment still open after them is extended", keys.HOURS
    )
    min_sample_size: int = key(100, "Sessions per arm before the first look", keys.Between(2))
    traffic_split: float = key(0.5, "Share of the units that get the treatment", keys.OPEN_SHARE)
    confidence_level: float = key(
        0.95, "Confidence that a conclusion needs", keys.Between(0.5, 1, open_high=True)
    )
    min_effect_size: float = key(
        0.02, "Gain that a treatment must show to be kept (see effect_scale)", keys.OPEN_SHARE
    )
    effect_scale: str = key(
        "absolute",
        "Whether min_effect_size is in fitness points or a share of the control's fitness",
        keys.OneOf(("absolute", "relative")),
    )
    ramp: float = key(1.0, "Share of the traffic that takes part", keys.RAMP)
    randomization_unit: str = key(
        "auto", "What is assigned; auto: the user where known", keys.OneOf(("auto", "session", "user"))
    )
    min_duration_hours: float = key(
        24.0, "Hours before a winner may be kept; 168 covers a whole week", keys.HOURS_OR_ZERO
    )
    outcome_window_hours: float = key(
        24.0, "Hours after its end when a session's outcome is read", keys.HOURS
    )
    min_units: float = key(20.0, "Effective number of units per arm before the first look", keys.Between(2))
    planned_sample: int | str = key(
        "power",
        "Sessions per arm to plan for; power: enough to see min_effect_size in 80 % of cases",
        keys.WordOr("power", keys.Between(2)),
    )
    spending: str = key("hsd:-4", "How the error rate is spread over the looks", keys.SPENDING)
    act_on_futility: bool = key(False, "Stop when a win has become unlikely; false only says so")
    test: str = key(
        "auto",
        "Test of the primary comparison; auto adds a rank test where the mean test is unsure",
        keys.OneOf(("auto", "mean")),
    )
    promotion_fdr: float = key(
        0.1, "False promotions allowed among those made without a person", keys.OPEN_SHARE
    )
    auto_converge: AutoConverge = AutoConverge()


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each fitness dimension; together they make 1."""

    response_relevance: float = key(0.30, "Answers fit the question (judge)", keys.SHARE)
    task_completion: float = key(0.25, "Tasks are done", keys.SHARE)
    response_latency: float = key(0.15, "Time to the first token", keys.SHARE)
    token_efficiency: float = key(0.10, "Tokens for a task that succeeded", keys.SHARE)
    memory_precision: float = key(0.10, "Recalled memories are relevant", keys.SHARE)
    user_satisfaction: float = key(0.10, "Thumbs and corrections", keys.SHARE)

    def as_dict(self) -> dict[str, float]:
        """Weight by dimension name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Fitness values that raise an alert or undo a change."""

    minimum_acceptable: float = key(0.50, "Fitness below this raises an alert", keys.SHARE)
    regression_delta: float = key(
        0.05, "Drop of the fitness, in points of 0 to 1, that undoes a change", keys.OPEN_SHARE
    )


@dataclass(frozen=True, slots=True)
class Fitness:
    """How an agent's performance becomes one number."""

    evaluation_window_hours: float = key(24.0, "Hours of sessions in one score", keys.HOURS)
    min_sessions_for_score: int = key(10, "Fewer sessions than this give no score", keys.COUNT)
    target_ms: float = key(500.0, "Time to the first token that scores 1", keys.POSITIVE)
    ceiling_ms: float = key(10000.0, "Time to the first token that scores 0", keys.POSITIVE)
    target_tokens: float | str = key(
        "auto",
        "Tokens per successful task that score 1; auto: 5th percentile of the first 200 sessions",
        keys.WordOr("auto", keys.POSITIVE),
    )
    ceiling_tokens: float | str = key(
        "auto",
        "Tokens per successful task that score 0; auto: 99th percentile of the first 200 sessions",
        keys.WordOr("auto", keys.POSITIVE),
    )
    weights: Weights = Weights()
    thresholds: Thresholds = Thresholds()


@dataclass(frozen=True, slots=True)
class DecisionDatabase:
    """Where the ledger is, which always keeps the decisions."""

    backend: str = key("sqlite", "Kind of database", keys.OneOf(("sqlite", "postgres")))
    path: str = key(
        "",
        "File, or connection URL of PostgreSQL; empty: store.url, else ledger.sqlite in $PRX_HOME",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """The record of what was decided and why. The ledger keeps it always; file adds an export."""

    enabled: bool = key(True, "Write the export (the ledger's own record cannot be turned off)")
    storage: str = key(
        "database", "file: also write the decisions as files", keys.OneOf(("file", "database"))
    )
    path: str = key("", "Folder of the files, relative to $PRX_HOME; empty: decisions")
    format: str = key("jsonl", "One object a line, or indented", keys.OneOf(("jsonl", "json")))
    retention_days: int = key(
        180, "Days that files are kept after their last decision; 0: for ever", keys.COUNT_OR_ZERO
    )
    max_entries: int = key(10000, "Decisions in one file before the next begins", keys.COUNT)
    database: DecisionDatabase = DecisionDatabase()


@dataclass(frozen=True, slots=True)
class ModelRole:
    """A model endpoint that speaks the OpenAI protocol. Without base_url and model the role is absent."""

    base_url: str = keys.key("", "Address of the endpoint, such as https://host/v1", keys.URL)
    model: str = keys.key("", "Model name sent in requests")
    key: str = keys.key("", "API key; write it as env:NAME or file:PATH", secret=True)
    checker: str = keys.key(
        "", 'judge only: name of a checker that answers instead of a model (judge = "checker:NAME")'
    )

    price_input: float = keys.key(
        -1.0,
        "Dollars per 1M input tokens; below 0: the built-in list price, 0 for a local endpoint",
        keys.Between(-1),
    )
    price_output: float = keys.key(
        -1.0,
        "Dollars per 1M output tokens; below 0: the built-in list price, 0 for a local endpoint",
        keys.Between(-1),
    )

    @property
    def configured(self) -> bool:
        """Whether requests can be sent."""
        return bool(self.base_url and self.model)


@dataclass(frozen=True, slots=True)
class Models:
    """Which models do the engine's own work. There is no default and no key is guessed."""

    agent: ModelRole = ModelRole()
    judge: ModelRole = ModelRole()
    proposer: ModelRole = ModelRole()
    embedder: ModelRole = ModelRole()


@dataclass(frozen=True, slots=True)
class Budget:
    """What the engine's own model calls may cost; serving is never limited by it."""

    monthly_usd: float = key(0.0, "Dollars in a calendar month; 0: no limit in dollars", keys.COUNT_OR_ZERO)
    max_share_of_serving: float = key(0.05, "Share of the serving cost that the engine may add", keys.SHARE)


@dataclass(frozen=True, slots=True)
class GateCheck:
    """An own check: exit code 0 pass, 1 fail, 2 not enough data, other values an error."""

    name: str = key("", "Name shown in proofs", keys.NOT_EMPTY)
    command: tuple[str, ...] = key((), "Program and arguments, run without a shell")
    timeout_s: float = key(60.0, "Seconds until the check counts as an error", keys.POSITIVE)
    required: bool = key(True, "A failure rejects the proposal; false only shows it")


@dataclass(frozen=True, slots=True)
class Gate:
    """Checks before a candidate is run at all."""

    checks: tuple[GateCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class Shadow:
    """Running the candidate beside production, its output never sent."""

    min_hours: float = key(24.0, "Hours of shadow running at least", keys.HOURS_OR_ZERO)
    min_pairs: int = key(100, "Pairs of outputs at least", keys.COUNT)


@dataclass(frozen=True, slots=True)
class Judge:
    """How the judge's scores decide."""

    min_score: float = key(0.6, "A candidate whose lower 90 % bound is below this is rejected", keys.SHARE)
    non_inferiority_margin: float = key(
        0.05, "How much worse than production still counts as equal", keys.OPEN_SHARE
    )
    min_tasks: int = key(50, "Tasks judged at first", keys.COUNT)
    max_tasks: int = key(200, "Tasks judged at most while undecided", keys.COUNT)
    live_share: float = key(
        0.1,
        "Share of live interactions that the judge model scores for relevance, the same in every arm",
        keys.SHARE,
    )
    live_per_tick: int = key(50, "Live interactions scored at most in one run of the engine", keys.COUNT)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The circuit breaker on every served variant."""

    failure_ratio: float = key(
        2.0, "Times the baseline failure rate from which it may trip", keys.Between(1, open_low=True)
    )
    window_minutes: float = key(60.0, "Minutes of sessions that it looks at", keys.POSITIVE)
    min_sessions: int = key(20, "Sessions in the window at least", keys.COUNT)
    min_failures: int = key(5, "Failed sessions in the window at least", keys.COUNT)
    check_interval_minutes: float = key(5.0, "Minutes between two looks", keys.POSITIVE)
    strict_ratio: bool = key(False, "Trip on the plain ratio, without a test against chance")
    cooldown_hours: float = key(
        24.0, "Hours without changes after the first trip; each further trip doubles them", keys.HOURS
    )


@dataclass(frozen=True, slots=True)
class Watch:
    """The time between a promotion and its confirmation."""

    holdback: float = key(0.1, "Share of the units that stay on the previous version", keys.SHARE)
    holdback_hours: float = key(168.0, "Hours that they stay", keys.HOURS_OR_ZERO)
    holdback_min_sessions_per_day: int = key(
        600, "Traffic from which units are held back", keys.COUNT_OR_ZERO
    )
    on_unconfirmed: str = key(
        "revert",
        "A memory change with too little data at the end of its window",
        keys.OneOf(("revert", "keep")),
    )
    max_failed_cycles: int = key(3, "Failed cycles in a row that pause the engine", keys.COUNT)


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of the traffic."""

    content: str = key(
        "full",
        "Keep texts, keep them without personal data, or keep none",
        keys.OneOf(("full", "redacted", "none")),
    )
    session_idle_minutes: float = key(30.0, "Minutes of silence that end a session", keys.POSITIVE)
    spool_max_bytes: int = key(
        1024 * 1024 * 1024,
        "Bytes that records may take on their way to the store; from 80 % on texts are left out",
        keys.Between(1024 * 1024),
    )
    on_full: str = key(
        "serve",
        "When not even envelopes fit: serve the champion and count the gap, or let the gateway refuse",
        keys.OneOf(("serve", "refuse")),
    )
    spool_fsync: str = key(
        "batch",
        "batch: what was written survives a power cut 50 ms later; never: when the system likes",
        keys.OneOf(("batch", "never")),
    )
    spool_keep_hours: float = key(
        72.0, "Hours that records stay in the spool once the store has them", keys.HOURS_OR_ZERO
    )


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of your own, fed by feedback of the same name."""

    type: str = key(
        "mean",
        "mean of the values, or rate of sessions with a value above 0",
        keys.OneOf(("mean", "rate")),
    )
    better: str = key("higher", "Which direction is good", keys.OneOf(("higher", "lower")))
    window_hours: float = key(24.0, "Hours after the session's start in which values count", keys.HOURS)
    role: str = key(
        "report",
        "primary replaces the composite in experiments, guardrail blocks a promotion, report is shown",
        keys.OneOf(("primary", "guardrail", "report")),
    )
    margin: float = key(
        0.05,
        "guardrail only: how much worse is still accepted, in the metric's unit",
        keys.POSITIVE,
    )


@dataclass(frozen=True, slots=True)
class Store:
    """Where the state is kept: SQLite files in $PRX_HOME, or one PostgreSQL for several machines."""

    url: str = key(
        "",
        "postgresql://user:password@host:port/name, best as env:NAME; empty: SQLite files in $PRX_HOME",
        keys.POSTGRES,
        secret=True,
        required=True,
    )


@dataclass(frozen=True, slots=True)
class Audit:
    """Signed heads of the audit log in a second place, so that even the store's owner cannot rewrite it."""

    head_file: str = key(
        "", "File, best of another user or machine, that gets a head every 100 rows or 10 minutes"
    )
    head_key: str = key(
        "",
        "Key that signs the heads, 16 characters or more; write it as env:NAME or file:PATH",
        keys.SIGNING_KEY,
        secret=True,
        required=True,
    )


_GATEWAY = GatewayPolicy()


@dataclass(frozen=True, slots=True)
class Settings:
    """The switches of the engine as a whole.

    `file` is where the configuration was read from, `notes` what is worth a warning.
    """

    enabled: bool = key(False, "Let the engine propose and apply changes; recording does not need it")
    auto_apply: bool = key(False, "Apply prompt changes that were proven without asking a person")
    author_may_approve: bool = key(True, "Whoever proposed a change may approve it too; false: somebody else")
    l1: MemoryLayer = MemoryLayer()
    l2: PromptLayer = PromptLayer()
    l3: StrategyLayer = StrategyLayer()
    pipeline: Pipeline = Pipeline()
    safety: Safety = Safety()
    experiments: Experiments = Experiments()
    fitness: Fitness = Fitness()
    decision_log: DecisionLog = DecisionLog()
    models: Models = Models()
    budget: Budget = Budget()
    gate: Gate = Gate()
    shadow: Shadow = Shadow()
    judge: Judge = Judge()
    breaker: Breaker = Breaker()
    watch: Watch = Watch()
    record: Record = Record()
    store: Store = Store()
    audit: Audit = Audit()
    gateway: GatewayPolicy = _GATEWAY
    metrics: Mapping[str, Metric] = field(default_factory=lambda: _NO_METRICS)
    file: Path | None = field(default=None, compare=False, metadata={"outside": True})
    notes: tuple[str, ...] = field(default=(), compare=False, metadata={"outside": True})
