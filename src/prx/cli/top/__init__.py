"""Commands beside `prx evolution`."""

from prx.cli.top.backup import backup, restore
from prx.cli.top.demo import demo
from prx.cli.top.doctor import doctor
from prx.cli.top.erase import erase
from prx.cli.top.export import export
from prx.cli.top.importing import import_
from prx.cli.top.init import init
from prx.cli.top.memory import memory
from prx.cli.top.prompts import prompts
from prx.cli.top.serve import serve
from prx.cli.top.worker import worker

TOP_COMMANDS = (demo, init, serve, worker, prompts, memory, import_, export, erase, backup, restore, doctor)
