"""Any model behind the agent's own endpoint, by name: to try two models on the same recorded inputs."""

from collections.abc import Callable, Iterator, Mapping

from prx.models.port import ChatModel


class ServedModels(Mapping[str, ChatModel]):
    """Models of one endpoint, made when asked for; every name is in it, for only the endpoint knows."""

    def __init__(self, make: Callable[[str], ChatModel]) -> None:
        self._make = make
        self._made: dict[str, ChatModel] = {}

    def __getitem__(self, name: str) -> ChatModel:
        if not name:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
