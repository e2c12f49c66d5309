"""The order of the tests: those of the runner fork, which must come before any test that starts a device's threads."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name != "test_runner.py")
