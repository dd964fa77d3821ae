"""Versions as text."""

from collections.abc import Sequence

from prx.cli.output import Column, blocks, clean, diff_text, listing, pairs
from prx.cli.text.words import (
    NOTHING,
    moment,
    shortened,
    wide,
)
from prx.domain.versions import MemoryState, PromptSet, Version, VersionStatus
from prx.views.versions import LayerDiff, PartView, VersionRow, flat_settings


def versions_text(rows: Sequence[VersionRow], width: int | None) -> str:
    """All versions, oldest first."""
    if not rows:
        return "No version yet: the agent gets v1.0 when its first prompt is recorded or proposed."
    columns = (
        Column("Version"),
        Column("Created (UTC)"),
        Column("Status"),
        Column("From"),
        Column("Layer"),
        *((Column("Snapshot"),) if wide(width) else ()),
        Column("Note", wraps=True),
    )
    return listing(
        columns,
        (
            (
                row.version.label,
                moment(row.version.created_at),
                _standing(row.version, row.current),
                row.version.parents[0] if row.version.parents else NOTHING,
                row.version.layer.level if row.version.layer else NOTHING,
                *((row.version.snapshot_id,) if wide(width) else ()),
                shortened(row.version.note, width),
            )
            for row in rows
        ),
        width,
    )


def _standing(version: Version, current: bool) -> str:
    if current:
        return "current"
    # the stored word "live" would name some twenty versions beside the one that serves
    return "earlier" if version.status is VersionStatus.LIVE else version.status.replace("_", " ")


def version_text(version: Version, parts: Sequence[PartView], width: int | None, *, current: bool) -> str:
    """One version with its parts; `current`: it is the one that serves."""
    head = pairs(
        (
            ("Version", version.label),
            ("Snapshot", version.snapshot_id),
            ("Agent", version.agent),
            ("Created", f"{moment(version.created_at)} UTC by {version.source.value}"),
            ("Status", _standing(version, current)),
            ("From", ", ".join(version.parents)),
            ("Proposal", version.proposal_id or ""),
            ("Note", version.note),
        ),
        width,
    )
    return blocks(head, *(_part_text(part, width) for part in parts))


def _part_text(part: PartView, width: int | None) -> str:
    title = f"{part.layer.label}  {part.part_hash[: None if wide(width) else 19]}"
    content = part.content
    if content is None:
        return f"{title}\n    erased; only the hash is kept"
    if isinstance(content, PromptSet):
        texts = (
            f"    prompt {clean(name)}\n" + "\n".join(f"      {clean(line)}" for line in text.splitlines())
            for name, text in content.texts.items()
        )
        return "\n".join((title, *texts)) if content.texts else f"{title}\n    no prompt"
    if isinstance(content, MemoryState):
        operations = "\n".join(f"    {clean(one)}" for one in content.operations)
        return f"{title}\n{operations or '    no operation'}"
    shown = (f"    {name} = {value}" for name, value in flat_settings(content).items())
    return "\n".join((title, *map(clean, shown)))


def version_diff_text(layers: Sequence[LayerDiff]) -> str:
    """What differs between two versions."""
    if not layers:
        return "The two versions hold the same parts."
    return blocks(*(f"{one.layer.label}\n{diff_text(one.lines)}" for one in layers))
