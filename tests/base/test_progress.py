from tvm_sparse.base.progress import bars, shown


def test_who_asks_is_told_and_nothing_is_drawn(capsys):
    told = []
    with shown(lambda *step: told.append(step)) as report:
        report("importing", 0, 1)
    assert told == [("importing", 0, 1)]
    assert capsys.readouterr() == ("", "")


def test_bars_are_drawn_on_a_terminal_only(capsys, monkeypatch):
    with shown(None) as report:
        report("choosing", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with bars() as report:
        report("choosing", 1, 2)
    drawn = capsys.readouterr()
    assert drawn.out == ""
    assert "choosing" in drawn.err
    assert "1/2" in drawn.err
