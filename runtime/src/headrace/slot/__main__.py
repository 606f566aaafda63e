"""``python -m headrace.slot <arguments>``: see `headrace.slot.launch`."""

from headrace.slot.launch import main

if __name__ == "__main__":
    main()
