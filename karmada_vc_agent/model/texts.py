"""Texts of others, made fit for a line of ours."""


def one_line(text: object) -> str:
    """Return a text on one line, with escapes in place of what cannot be printed."""
    line = " ".join(str(text).split())
    if line.isprintable():
        return line
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line
    )
