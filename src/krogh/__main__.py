"""The command `krogh`, which `python -m krogh` is too: interruptions are watched for before anything takes time."""

from krogh.interrupting import leave, say_so, watch


def main() -> None:
    watch()
    try:
        from krogh import cli

        cli.main()
    except KeyboardInterrupt:
        say_so()
        leave()


if __name__ == "__main__":
    main()
