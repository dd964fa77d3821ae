import sys
from pathlib import Path

# the samples belong to the contract suite; these tests only borrow them
sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))
