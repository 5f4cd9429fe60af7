"""Debian packages for guests, by a private apt: nothing outside the cache folder is written.

The archives are those of this machine's own sources, with further suites added."""

import re
from pathlib import Path

from kit.say import LabError, run

OS_RELEASE = Path("/etc/os-release")
SOURCES = Path("/etc/apt")


class Apt:
    """An apt that believes that nothing is installed, so that it fetches whole trees."""

    def __init__(self, folder, more_suites, types="deb"):
        self.folder = Path(folder).resolve()
        for name in ["sources", "state/lists/partial", "cache/archives/partial"]:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        text = own_sources(SOURCES, codename(), more_suites)
        text = re.sub(r"^Types:.*$", f"Types: {types}", text, flags=re.MULTILINE)
        (self.folder / "sources" / "lab.sources").write_text(text)

    def update(self):
        self._get("update", "-q")

    def download(self, packages):
        """Fetches packages with all they depend on; gives the paths of the archives."""
        plan = self._plan(packages)
        self._get("install", "-y", "--download-only", *packages)
        return [self._archive(*line) for line in plan]

    def download_alone(self, packages, into):
        """Fetches packages without what they depend on; gives the paths of the archives."""
        run([*self._command(), "download", *packages], cwd=into)
        return sorted(Path(into).glob("*.deb"))

    def source(self, package, into):
        """Fetches a package's source, whose hashes apt checks; gives the path of its .dsc."""
        self._get("source", "--download-only", package, cwd=into)
        (found,) = Path(into).glob("*.dsc")
        return found

    def depends(self, package, pattern, suite):
        """The dependencies of a package that fit a pattern, as names of packages."""
        plan = self._plan(["-t", suite, package])
        found = [(name, version) for name, version, _ in plan if re.fullmatch(pattern, name)]
        if not found:
            raise LabError(f"{package} in {suite} depends on nothing like {pattern}")
        return ["=".join(pair) for pair in found]

    def _plan(self, words):
        """Name, version and architecture of all that would be installed."""
        said = self._get("install", "-s", *words).decode()
        plan = re.findall(r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", said, re.MULTILINE)
        if not plan:
            raise LabError(f"apt plans nothing for {' '.join(words)}")
        return plan

    def _archive(self, name, version, architecture):
        file = f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
        path = self.folder / "cache" / "archives" / file
        if not path.is_file():
            raise LabError(f"apt fetched no {path}")
        return path

    def _get(self, *words, **options):
        return run([*self._command(), *words], **options)

    def _command(self):
        here = self.folder
        options = {
            "APT::Install-Recommends": "0",
            "APT::Sandbox::User": "",
            "Debug::NoLocking": "1",
            "Dir::Cache": here / "cache",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": here / "sources",
            "Dir::State": here / "state",
            "Dir::State::status": here / "status",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return ["apt-get", *words]


def codename():
    """This Debian's name, as in its suites."""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", OS_RELEASE.read_text(), re.MULTILINE)
    if not found:
        raise LabError(f"{OS_RELEASE} names no VERSION_CODENAME: the lab needs a Debian system")
    return found.group(1)


def own_sources(folder, name, more_suites):
    """The machine's own sources of Debian, with suites added to the main archive's."""
    stanzas = []
    for path in sorted(folder.glob("sources.list.d/*.sources")):
        stanzas += re.split(r"\n\s*\n", path.read_text())
    lists = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))]
    for path in lists:
        if path.is_file():
            stanzas += [_stanza(line) for line in path.read_text().splitlines()]
    kept = [_with_suites(stanza, name, more_suites) for stanza in stanzas]
    if not any(kept):
        raise LabError(f"{folder} has no source with the suite {name}: nowhere to fetch from")
    return "\n\n".join(stanza for stanza in kept if stanza) + "\n"


def _stanza(line):
    """A line of the old format as a stanza of the new."""
    found = re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.+)", line.strip())
    if not found:
        return ""
    options, uri, suite, components = found.groups()
    text = f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {components}"
    signed = re.search(r"signed-by=(\S+)", options or "")
    return f"{text}\nSigned-By: {signed.group(1)}" if signed else text


def _with_suites(stanza, name, more_suites):
    lines = [line for line in stanza.splitlines() if line.strip() and line[0] != "#"]
    found = re.search(r"^Suites:\s*(.+)$", "\n".join(lines), re.MULTILINE)
    if not found or not any(suite.startswith(name) for suite in found.group(1).split()):
        return ""
    suites = found.group(1).split()
    if name in suites:
        suites += [suite for suite in more_suites if suite not in suites]
    lines = [f"Suites: {' '.join(suites)}" if l.startswith("Suites:") else l for l in lines]
    return "\n".join(lines)
