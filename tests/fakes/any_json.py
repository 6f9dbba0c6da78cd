"""JSON values of any shape, with brackets and quotation marks where they confuse most."""

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab[]{}",\\\n'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"[{'), inner, max_size=4)
    ),
    max_leaves=20,
)
