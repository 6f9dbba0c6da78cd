"""docs/sizing.md is what was measured."""

from bench import site


def test_the_page_is_of_the_newest_results() -> None:
    results = site.SiteResults(**site.newest("-site"))
    assert site.PAGE.read_text() == site.page(results, site.newest("-5000-nodes"))
