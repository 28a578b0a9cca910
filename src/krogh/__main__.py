"""`python -m krogh` is the command `krogh`."""

from krogh.cli import main

if __name__ == "__main__":
    main()
