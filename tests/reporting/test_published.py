from ocgl.reporting.published import published, table


def test_all_830_numbers_ship() -> None:
    assert table().height == 830
    assert table()["dataset"].n_unique() == 7
    assert table()["setting"].n_unique() == 7


def test_lookups() -> None:
    assert published("amazon-computer", "bare", "AP") == (18.99, 0.69)
    assert published("arxiv", "linear", "AAP", stream="time") is not None
    assert published("digits", "bare", "AP") is None
