"""SQL by name: each `.sql` file holds blocks that begin with `-- name: ...`."""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def read_statements(package: str, file: str) -> dict[str, str]:
    """The blocks of `file` in the `sql` folder of `package`, by name and in order of the file."""
    text = files(package).joinpath("sql", file).read_text(encoding="utf-8")
    pieces = _NAME.split(text)
    return {name: body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
