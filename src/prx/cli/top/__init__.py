"""Commands beside `prx evolution`."""

from prx.cli.top.demo import demo
from prx.cli.top.doctor import doctor
from prx.cli.top.export import export
from prx.cli.top.importing import import_
from prx.cli.top.init import init

TOP_COMMANDS = (demo, init, import_, export, doctor)
