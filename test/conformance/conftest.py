"""Orders the tests: tests of the runner fork, so they must precede any test that starts a device's threads."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name != "test_runner.py")
