"""Gates for the edges that ask them: a real board behind them, and coins that a test chooses."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from scaler.control.board import Board
from scaler.control.gate import GateParts, Gates
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.core.step import WorkloadSpec
from tests.support.decisions import KEY, SPEC
from tests.support.served import Clock


class Coins(random.Random):
    """The same coin each time: 0.9 is refused by any fraction that is much below 1."""

    def __init__(self, coin: float = 0.9) -> None:
        super().__init__()
        self.coin = coin

    def random(self) -> float:
        return self.coin


@dataclass
class Gated:
    """Gates with all that surrounds them at hand. The observations of ``tests.support.decisions`` end at 38 s."""

    outcomes: Iterable[Decision | Pending] = ()
    clock: Clock = field(default_factory=lambda: Clock(39.0))
    coins: Coins = field(default_factory=Coins)
    specs: dict[WorkloadKey, WorkloadSpec] = field(default_factory=lambda: {KEY: SPEC})
    nudged: list[WorkloadKey] = field(default_factory=list)
    board: Board = field(default_factory=Board)

    def __post_init__(self) -> None:
        for outcome in self.outcomes:
            self.board.publish(outcome)
        self.gates = Gates(GateParts(self.board, self.specs.get, self.clock, self.coins, self.nudged.append))
