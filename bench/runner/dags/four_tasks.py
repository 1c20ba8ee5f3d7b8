"""Four tasks, one of them mapped over three; what comes of them is in total.txt."""

from pathlib import Path

from holdfast.sdk import dag, task


@dag(schedule=None)
def four_tasks() -> None:
    @task
    def numbers() -> list[int]:
        return [1, 2, 3]

    @task
    def double(number: int) -> int:
        return 2 * number

    @task
    def total(values: list[int]) -> int:
        return sum(values)

    @task
    def write(value: int) -> None:
        Path("total.txt").write_text(str(value))

    write(total(double.expand(number=numbers())))


four_tasks()
