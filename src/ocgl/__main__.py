"""`python -m ocgl` is the command `ocgl`."""

from ocgl.cli import main

if __name__ == "__main__":
    main()
