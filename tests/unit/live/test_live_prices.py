import pytest

from prx.domain.prices import Price, Prices, provider_of
from prx.domain.records import Tokens


def test_cached_tokens_are_part_of_the_input_and_reasoning_of_the_output() -> None:
    prices = Prices({"acme/m": Price(input=2.0, output=10.0, cache_read=0.5, cache_write=3.0)})
    tokens = Tokens(input=1000, output=100, cache_read=400, cache_write=100, reasoning=90)
    # 500 x 2.00 + 400 x 0.50 + 100 x 3.00 + 100 x 10.00, per million
    assert prices.cost("acme", "m", tokens) == pytest.approx(2500 / 1e6)


def test_a_million_tokens_cost_their_list_price_and_a_dated_name_is_the_same_model() -> None:
    tokens = Tokens(input=1_000_000, output=0)
    assert Prices().cost("openai", "gpt-4o", tokens) == pytest.approx(2.5)
    assert Prices().cost("openai", "gpt-4o-2024-08-06", tokens) == pytest.approx(2.5)
    assert Prices().cost("anthropic", "claude-3-5-haiku-20241022", tokens) == pytest.approx(0.8)
    assert Prices().cost("openrouter", "openai/gpt-4o", tokens) == pytest.approx(2.5)


def test_the_operators_price_comes_first() -> None:
    own = Prices({"openai/gpt-4o": Price(1.0, 1.0)})
    assert own.cost("openai", "gpt-4o", Tokens(input=1_000_000, output=0)) == pytest.approx(1.0)


def test_an_unknown_price_or_unknown_tokens_give_no_cost_and_a_local_model_is_free() -> None:
    assert Prices().cost("openai", "gpt-99", Tokens(input=1, output=1)) is None
    assert Prices().cost("openai", "gpt-4o", Tokens(input=1)) is None
    assert Prices().cost("local", "gpt-4o", Tokens(input=1, output=1)) == 0.0
    priced = Prices({"local/llama": Price(1.0, 1.0)})
    assert priced.cost("local", "llama", Tokens(input=500_000, output=500_000)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1/", "openai"),
        ("http://localhost:11434/v1", "local"),
        ("http://127.0.0.1:8000", "local"),
        ("http://192.168.1.5/v1", "local"),
        ("http://[::1]:80/", "local"),
        ("https://llm.example.com/v1", "llm.example.com"),
        ("https://8.8.8.8/v1", "8.8.8.8"),
        ("", ""),
    ],
)
def test_the_provider_is_known_by_the_host(url: str, provider: str) -> None:
    assert provider_of(url) == provider
