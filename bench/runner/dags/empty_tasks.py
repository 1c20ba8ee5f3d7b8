"""As many instances as asked for of a task that does nothing."""

from holdfast.sdk import dag, task


@dag(schedule=None, params={"instances": 1})
def empty_tasks() -> None:
    @task
    def numbers(params: dict[str, int]) -> list[int]:
        return list(range(params["instances"]))

    @task
    def nothing(number: int) -> None:
        pass

    nothing.expand(number=numbers())


empty_tasks()
