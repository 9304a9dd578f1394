"""Entry point of `python -m ocgl.cli`."""

from ocgl.cli import main

if __name__ == "__main__":
    main()
