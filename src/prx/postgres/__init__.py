"""PostgreSQL opened safely: pooled connections that come back by themselves, failures in words, migrations.

Needs psycopg (`pip install 'prx-evolution[postgres]'`); nothing else of the package imports it.
"""

from prx.postgres.address import Address
from prx.postgres.database import Database
from prx.postgres.schema import Schema
from prx.postgres.work import Work

__all__ = ["Address", "Database", "Schema", "Work"]
