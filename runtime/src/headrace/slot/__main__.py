"""``python -m headrace.slot <arguments>``: see `headrace.slot.process`."""

from headrace.slot.process import main

if __name__ == "__main__":
    main()
