"""SQLite files opened safely: pooled connections, failures in words, migrations."""

from prx.sqlite.copying import check_file, copy_file
from prx.sqlite.database import Database
from prx.sqlite.schema import Schema
from prx.sqlite.statements import read_statements
from prx.sqlite.work import Work

__all__ = ["Database", "Schema", "Work", "check_file", "copy_file", "read_statements"]
