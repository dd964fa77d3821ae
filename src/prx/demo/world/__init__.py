"""A simulated world in which true effects are known; only reports see the truth."""

from prx.demo.world.flavours import WORLDS, World, world_named
from prx.demo.world.simulation import Simulation, in_process
from prx.demo.world.truth import Truth

__all__ = ["WORLDS", "Simulation", "Truth", "World", "in_process", "world_named"]
