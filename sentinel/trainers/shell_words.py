"""The words of a shell script: its simple commands, and in each word what the shell would expand.

Enough of the grammar to see who is given which arguments: quotes, comments, here-documents, substitutions, functions. Nothing is
run or expanded. What this does not understand raises `NotRead`; whoever asked then knows nothing, and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*|[@*#?$!0-9-])|\{([#!]?)([A-Za-z_]\w*|[@*#?$!0-9-])((?:\[[@*]\])?)([^{}]*)\})")
_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?(\+?)=")
_FUNCTION = re.compile(r"(?:function[ \t]+([\w.-]+)[ \t]*(?:\(\s*\))?|([\w.-]+)[ \t]*\([ \t]*\))\s*\{")
_ENDS = (";;&", ";;", ";&", "&&", "||", "|&", "&", "|", ";", "\n", "(", ")")
_REDIRECTS = re.compile(r"\d*(?:&>>?|>>|>\||[<>]&|<<<|<>|[<>])(?![(])")
KEYWORDS = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "case", "esac", "in"))


class NotRead(ValueError):
    """The script is not understood; the text says what of it."""


@dataclass(frozen=True)
class ShellWord:
    """`text`: without its quotes, expansions as they are written. `whole`: names that it expands wholly, such as @ for "$@";
    `part`: names of which it takes something else: a slice, a count, the output of a command that uses them."""

    text: str
    whole: frozenset[str] = frozenset()
    part: frozenset[str] = frozenset()


@dataclass
class ShellCommand:
    """One simple command. `within`: the function whose body holds it. `assigned`: in front of it, with += as True. `end`: what
    ends it, such as | or a newline; empty at the end of the text."""

    line: int
    within: str | None = None
    words: list[ShellWord] = field(default_factory=list)
    assigned: list[tuple[str, bool, ShellWord]] = field(default_factory=list)
    end: str = ""


@dataclass
class ShellText:
    """`is_plain`: one command behind another, without functions, subshells, loops and conditions."""

    commands: list[ShellCommand]
    here_documents: list[str]
    is_plain: bool = True


def read_script(text: str) -> ShellText:
    """Raises NotRead."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text.replace("\r\n", "\n"), 0
        self.commands: list[ShellCommand] = []
        self.here: list[str] = []
        self._due: list[tuple[str, bool]] = []  # delimiters of here-documents that begin with the next line
        self._functions: list[tuple[str, int]] = []  # open, with the depth of braces they began at
        self._braces = 0
        self._is_plain = True

    def read(self) -> ShellText:
        command = self._new()
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if rest[0] in " \t\r":
                self.at += 1
            elif rest.startswith("\\\n"):
                self.at += 2
            elif rest[0] == "#":
                self.at += len(rest.split("\n", 1)[0])
            elif not command.words and not command.assigned and (function := _FUNCTION.match(rest)) is not None:
                self._functions.append((function[1] or function[2], self._braces))
                self._is_plain = False
                self._braces += 1
                self.at += function.end()
                command = self._new()
            elif (here := _HERE.match(rest)) is not None and not rest.startswith("<<<"):
                self._due.append((here[2] or here[3] or here[4], bool(here[1])))
                self.at += here.end()
            elif (redirect := _REDIRECTS.match(rest)) is not None:
                self.at += redirect.end()
                self._skip_blanks()
                if self.at < len(self.text) and self.text[self.at] not in "\n;|&":
                    self._word()
            elif (end := next((mark for mark in _ENDS if rest.startswith(mark)), None)) is not None:
                self.at += len(end)
                command.end = end
                self._is_plain = self._is_plain and end not in ("(", ")")
                if end == "\n":
                    self._here_documents()
                command = self._new()
            else:
                self._take(command, self._word())
        if self._due:
            raise NotRead(f"the end of a here-document ({self._due[0][0]}) is not there")
        if self._functions:
            raise NotRead(f"the end of the function {self._functions[-1][0]} is not there")
        return ShellText([one for one in self.commands if one.words or one.assigned], self.here, self._is_plain)

    def _new(self) -> ShellCommand:
        within = self._functions[-1][0] if self._functions else None
        self.commands.append(ShellCommand(self.text.count("\n", 0, self.at) + 1, within))
        return self.commands[-1]

    def _take(self, command: ShellCommand, word: ShellWord) -> None:
        if not command.words and word.text in KEYWORDS:
            self._is_plain = False
            self._braces += (word.text == "{") - (word.text == "}")
            if word.text == "}" and self._functions and self._functions[-1][1] == self._braces:
                self._functions.pop()
            command.within = self._functions[-1][0] if self._functions else None
        elif not command.words and (assigned := _ASSIGNED.match(word.text)) is not None:
            if word.text == assigned[0] and self.text[self.at : self.at + 1] == "(":
                word = self._array(word)
            command.assigned.append((assigned[1], bool(assigned[2]), word))
        else:
            command.words.append(word)

    def _array(self, name: ShellWord) -> ShellWord:
        """`NAME=( … )`: its elements as one word."""
        whole, part = set(name.whole), set(name.part)
        self.at += 1
        while self.text[self.at : self.at + 1] != ")":
            if self.at >= len(self.text):
                raise NotRead(f"the end of the array {name.text} is not there")
            if self.text[self.at] in " \t\n\r" or self.text.startswith("\\\n", self.at):
                self.at += 1 if self.text[self.at] != "\\" else 2
            elif self.text[self.at] == "#":
                self.at += len(self.text[self.at :].split("\n", 1)[0])
            elif self.text[self.at] in "(;&|<>":
                raise NotRead(f"the array {name.text} holds {self.text[self.at]!r}")
            else:
                word = self._word()
                whole, part = whole | word.whole, part | word.part
        self.at += 1
        return ShellWord(name.text, frozenset(whole), frozenset(part))

    def _skip_blanks(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def _here_documents(self) -> None:
        for delimiter, is_indented in self._due:
            lines = self.text[self.at :].split("\n")
            bare = [line.lstrip("\t") if is_indented else line for line in lines]
            if delimiter not in bare:
                raise NotRead(f"the end of a here-document ({delimiter}) is not there")
            count = bare.index(delimiter)
            self.here.append("\n".join(lines[:count]))
            self.at = min(len(self.text), self.at + sum(len(line) + 1 for line in lines[: count + 1]))
        self._due.clear()

    def _word(self) -> ShellWord:
        text: list[str] = []
        whole, part = set[str](), set[str]()
        start, is_quoted = self.at, False
        while self.at < len(self.text):
            mark = self.text[self.at]
            if mark == "'" and not is_quoted:
                text.append(self._until("'"))
            elif mark == '"':
                is_quoted = not is_quoted
                self.at += 1
            elif mark == "\\":
                text.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif mark in "$`" and self._expansion(text, whole, part):
                pass
            elif not is_quoted and self.text[self.at : self.at + 2] in ("<(", ">("):
                part |= _named(inner := self._bracketed())
                text.append(inner)
            elif not is_quoted and (mark in " \t\r\n;&|()<>"):
                break
            else:
                text.append(mark)
                self.at += 1
        if is_quoted:
            raise NotRead(f'line {self.text.count(chr(10), 0, start) + 1}: a " is not closed')
        if self.at == start:
            raise NotRead(f"line {self.text.count(chr(10), 0, start) + 1}: {self.text[start]!r} is not understood")
        return ShellWord("".join(text), frozenset(whole), frozenset(part))

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at + 1)
        if end < 0:
            raise NotRead(f"line {self.text.count(chr(10), 0, self.at) + 1}: a {mark} is not closed")
        found, self.at = self.text[self.at + 1 : end], end + 1
        return found

    def _expansion(self, text: list[str], whole: set[str], part: set[str]) -> bool:
        """Of a variable or a command, at the cursor; False for a dollar that stands for itself."""
        rest = self.text[self.at :]
        if rest.startswith("$'"):
            self.at += 1
            text.append(self._until("'"))
        elif rest.startswith("`"):
            part |= _named(inner := self._until("`"))
            text.append(f"`{inner}`")
        elif rest.startswith("$("):
            inner = self._bracketed()
            part |= _named(inner)
            text.append(inner)
        elif (variable := _VARIABLE.match(rest)) is not None:
            name, changed = variable[1] or variable[3], variable[2] or variable[5]
            # ${A:-…} and ${A+…} are A where it is set; anything else is a piece of it, or says something about it
            is_whole = not changed or (not variable[2] and re.match(r":?[-+]", changed) is not None)
            (whole if is_whole else part).add(name)
            part |= _named(variable[5] or "") - {name}
            text.append(variable[0])
            self.at += variable.end()
        elif rest.startswith("${"):
            raise NotRead(f"line {self.text.count(chr(10), 0, self.at) + 1}: {rest.split(chr(10))[0][:30]!r} is not understood")
        else:
            return False
        return True

    def _bracketed(self) -> str:
        """A substitution from its dollar to its bracket."""
        depth, at = 0, self.at + 1
        while at < len(self.text):
            depth += (self.text[at] == "(") - (self.text[at] == ")")
            at += 1
            if not depth:
                found, self.at = self.text[self.at : at], at
                return found
        raise NotRead(f"line {self.text.count(chr(10), 0, self.at) + 1}: a $( is not closed")


def _named(text: str) -> set[str]:
    """Every variable that is named in it, quoted or not."""
    return {match[1] or match[3] for match in _VARIABLE.finditer(text)}
