"""``python -m scaler`` is ``slo-scaler``."""

from scaler.cli import main

if __name__ == "__main__":
    main()
