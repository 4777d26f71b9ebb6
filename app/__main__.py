"""The program `attachment-gateway` behind its check of packages, also `python -m app`.

It handles Ctrl-C while it imports the rest. Only the program imports this module: with the import, Ctrl-C ends the
process at once. What Python itself does before, from its start to this module, cannot be handled here.
"""

try:
    from app.cli import end_at_interrupts, main

    end_at_interrupts()
except KeyboardInterrupt:
    raise SystemExit(130) from None  # app.cli.INTERRUPTED, which is perhaps not loaded yet

__all__ = ["main"]

if __name__ == "__main__":
    main()
