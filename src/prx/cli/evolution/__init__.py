"""`prx evolution`: what the engine of an agent did, and what a person tells it."""

import click

from prx.cli.call import AgentGroup
from prx.cli.evolution.audit import audit
from prx.cli.evolution.control import CONTROL_COMMANDS
from prx.cli.evolution.cost import cost
from prx.cli.evolution.decided import DECIDED_COMMANDS
from prx.cli.evolution.experiments import experiments
from prx.cli.evolution.fitness import fitness
from prx.cli.evolution.incidents import incidents
from prx.cli.evolution.look import LOOK_COMMANDS
from prx.cli.evolution.versions import versions


@click.group(cls=AgentGroup)
def evolution() -> None:
    """See and steer how an agent improves.

    What the engine found, decided and changed, and what a person tells it.
    """


for _command in (
    *LOOK_COMMANDS,
    *DECIDED_COMMANDS,
    *CONTROL_COMMANDS,
    experiments,
    fitness,
    incidents,
    versions,
    audit,
    cost,
):
    evolution.add_command(_command)
