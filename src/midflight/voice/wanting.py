"""Whether few words that are said over us want something, or only remark on what was said.

Remarks are made up as people speak ("just as I expected", "makes you think"), and no list has them
all. What wants something has marks: it begins with a verb or asks, it names something, or it has
one of those words that people limit, correct, wish and object with. Words without any such mark may
be a remark, and few that have one are ("who knew").
"""

from __future__ import annotations

import re
from typing import Final

from midflight.voice.lexicon import DOINGS, LEAD
from midflight.voice.phrases import any_of, plain

FEW: Final = 6  # words of a remark; who says more over us wants to be listened to

TO_DO: Final = any_of(
    *DOINGS,
    "abort", "add", "allow", "answer", "archive", "ask", "assign", "attach", "be", "begin", "block",
    "bookmark", "break", "bring", "build", "calculate", "call", "cancel", "charge", "check",
    "choose", "clear", "close", "compare", "convert", "copy", "correct", "count", "cross", "cut",
    "define", "deliver", "describe", "discard", "display", "divide", "do", "don't", "double",
    "download", "draft", "e mail", "email", "end", "enter", "erase", "excuse", "expand", "explain",
    "fetch", "file", "fill", "filter", "find", "finish", "fire", "fix", "focus", "forget",
    "forward", "get", "give", "go", "group", "hear me", "help", "hide", "highlight", "hold", "hush",
    "ignore", "include", "increase", "insert", "invite", "join", "jump", "keep", "kill", "label",
    "leave", "limit", "list", "listen", "load", "lock", "log", "look", "lower", "mail", "mark",
    "mention", "mute", "name", "note", "omit", "open", "park", "pause", "phone", "pick", "play",
    "postpone", "press", "print", "pull", "push", "put", "quit", "quote", "raise", "rank", "read",
    "record", "reduce", "refund", "reject", "remember", "remind", "rename", "repeat", "rephrase",
    "replace", "reply", "report", "rerun", "reschedule", "restart", "retry", "return", "revert",
    "review", "rewind", "rewrite", "ring", "roll", "round", "say", "schedule", "scrap", "scratch",
    "scroll", "search", "see if", "select", "sell", "set", "shorten", "show", "shush", "shut",
    "simplify", "skip", "slow down", "sort", "speak", "speed", "spell", "stay", "stick", "stop",
    "store", "strike", "subtract", "suggest", "summari[sz]e", "swap", "switch", "take", "talk",
    "tell", "test", "text", "transfer", "translate", "try", "turn", "undo", "update", "upload",
    "use", "verify", "wait", "zoom",
)  # fmt: skip
"""Verbs that orders begin with."""

SOMEBODY: Final = any_of(
    "i", "you", "he", "she", "it", "we", "they", "that", "this", "these", "those", "there", "the",
    "my", "your", "our", "his", "her", "their", "any\\w*", "some\\w*", "all",
)  # fmt: skip
ASKING: Final = any_of(
    "what(?:'s|'re|'d)?", "which", "who(?:'s)?", "whose", "when", "where(?:'s|'d)?", "why",
    "how(?:'s|'d)?", "who'd", "any\\w*", "something", "somewhere",
    any_of(
        "is", "are", "am", "was", "were", "do", "does", "did", "has", "have", "can", "could",
        "will", "would", "should", "shall", "may", "might", "ca", "wo", "sha",
    ) + f"(?:n't)? {SOMEBODY}",
)  # fmt: skip
"""What questions begin with, also those that only imply one."""

LIMITS: Final = any_of(
    "only", "except", "without", "unless", "instead", "first", "next", "last", "previous", "please",
    "again", "more", "less", "fewer", "enough", "(?<!not )wrong", "mistake",
    "incorrect", "inaccurate", "untrue", "false", "none of", "zero", "twice", "other", "another",
    "different", "louder", "quieter", "softer", "slower", "faster", "quicker", "shorter", "longer",
    "cheaper", "closer", "newer", "older", "bigger", "smaller", "earlier", "later", "simpler",
    "slowly", "quietly", "yet", "today", "tomorrow", "tonight", "yesterday", "week", "month",
    "year", "quarter", "minutes?", "seconds?", "hours?", "page", "chapter", "section", "version",
    "paragraph", "sentence", "footnotes?", "headlines?", "totals?", "names?", "half", "percent",
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "\\w+teen", "(?:twen|thir|for|fif|six|seven|eigh|nine)ty", "hundred", "thousand", "million",
    "third", "fourth", "fifth", "\\d\\S*", "euros?", "dollars?", "pounds?",
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?", "no (?:need|point|more)",
    "too (?!bad|true|right|funny|good|kind|shabby|well|easy)\\w+",
    "not (?:the|that|this|these|those|my|in|on|now|until|before|for|from|what|like|so fast|him|her"
    "|them|me)",
)  # fmt: skip
"""What people limit and correct with, or limit something to."""

WISHES: Final = any_of(
    "(?:i|we) (?:just |only |already |really |still |did not |do not )*" + any_of(
        "need", "want", "wanted", "mean", "meant", "said", "asked", "prefer", "preferred", "missed",
        "have", "haven't", "must", "don't(?! know| doubt| blame| mind| wonder)", "didn't", "won't",
        "can't(?! even| complain| argue| believe| imagine| wait| blame)", "cannot", "was", "were",
        "live", "moved", "forgot", "thought", "paid", "changed", "lost", "heard", "agreed",
        "disagree", "doubt", "object",
    ),
    "(?:i|we)(?:'d| would) (?:rather|prefer|like|sooner|want|skip)|rather not|(?:i'm|we're) not",
    "(?:i|we)(?:'ve| have)(?: only)? (?:got|heard|seen|read|done|had|changed|lost)",
    "i'm (?:off|late|busy|driving|lost|confused|allergic)|all i (?:need|want)|sorry to interrupt",
    "you (?:just |already |still |never )*" + any_of(
        "missed", "skipped", "left", "said", "told", "promised", "forgot", "forget", "keep", "kept",
        "lost", "never", "still", "haven't", "didn't", "were", "sound", "mean", "should", "could",
        "might", "need", "misunderstood", "misheard", "can",
    ),
    "you're (?:too|going|mumbling|breaking|shouting|cutting|reading)|you've lost",
    f"{SOMEBODY} (?:isn't|can't|cannot|doesn't|wasn't|aren't|needs|has to|is not|does not)",
    "(?:that|it|this|there)'s (?:not|too|way|my|got to|out of)|(?:can|could|would|will) you",
    "let's|let (?:me|us|him|her|them)|if you (?:could|can|would)|could do with",
    "would be (?:good|nice|better|great) (?:to|if)|might (?:be worth|want)",
    "my (?:turn|\\w+(?:'s| is| are| has| isn't| won't))",
)  # fmt: skip
"""What people wish, object and excuse themselves with."""

BEGINS: Final = re.compile(
    f"{LEAD}(?:{TO_DO}|{ASKING}|" + any_of(
        "the", "just (?:the|this|these|those)", "in", "from", "before", "after", "under", "since",
        "until", "minus", "also", "as for", "and (?:for|if|the|what|who|how|in)",
        "gotta(?! love| laugh| hand| admit)", "back(?! in)", "volume", "quiet", "silence", "sh+",
        "freeze", "cease", "zip it", "pipe down", "knock it off", "time out", "i'm done",
        "that'll do(?! nicely)", "that will do(?! nicely)",
    ) + r")\b(?!')"
)  # fmt: skip
HAS: Final = re.compile(rf"\b(?:{LIMITS}|{WISHES})(?![\w'])")
NAMED: Final = re.compile(r"(?<=[\w,] )(?!(?:I|God|Lord|Heavens?)\b)[A-Z]\w+")
"""A name, as a recogniser writes it."""

NO_SUCH: Final = any_of(
    "surprises?", "wonder", "way", "harm", "chance", "joke", "lie", "denying", "arguing", "shame",
    "mistake", "question", "sweat", "luck", "hurry", "rush", "dramas?", "news", "use crying",
    "shocks?", "arguments?", "complaints?", "objections?", "accident", "coincidence",
    "stopping", "telling", "two ways", "mean", "flies", "good", "escaping", "contest", "biggie",
)  # fmt: skip
TURNS: Final = any_of(
    "what an? (?:\\w+ )?\\w+", "what are you (?:gonna|going to) do",
    "what (?:on earth|next|else is new|do you know|are the odds|can you do)",
    "what's (?:done is done|not to (?:like|love))",
    "who(?:'d| would)?(?: have|'ve)?(?: ever)? (?:thought|guessed|known|believed)(?: it| that)?",
    "who knew|says who|whatever \\w+|how about that|look at that|oh no|the plot thickens",
    "how (?:very |rather |utterly )?" + any_of(
        "odd", "strange", "weird", "bizarre", "curious", "peculiar", "ironic", "typical", "sad",
        "awful", "dreadful", "terrible", "horrible", "annoying", "embarrassing", "disappointing",
        "depressing", "unfortunate", "rude", "silly", "posh", "exciting",
    ),
    "(?:is|was|did|does|are|has)(?:n't)? (?:it|that|he|she|they)(?: now| really| just| right"
    "| so| a fact| something| always)?",
    "(?:would|can|could|do)(?:n't)? you (?:believe|credit|imagine|know) (?:it|that)",
    "(?:does|do)n't time fly|where does the time go|(?:well )?don't i know it",
    "tell me (?:about it|another|something i don't know)|go figure|say no more|give me strength",
    "get (?:away|out|in|out of (?:here|town))|here (?:we|they) go again",
    "pull the other one(?: mate)?|you (?:can|could) say that again|more power to \\w+",
    "i was (?:just |also )?(?:thinking|about to say|going to say|gonna say)(?: that| so)?",
    "just the (?:ticket|job|thing)|i was thinking the same(?: thing)?",
    "i (?:always |also )?thought (?:so|as much|that|the same)(?: too| myself)?",
    "i (?:must|have to) (?:say|admit|agree)|i have my doubts|(?:a |one )?hundred percent",
    "i(?:'d| would) like (?:that|to think so)|(?:those were )?the (?:good old )?days",
    "(?:that|it)'s too (?:bad|true|funny|good|kind)|close (?:shave|call|one)(?: that| there)?",
)  # fmt: skip
"""Turns of phrase that have marks, and are remarks all the same."""

NOTHING_OF_IT: Final = re.compile(f"(?:(?:oh|well) )?no {NO_SUCH}(?P<rest>(?: .*)?)")
REMARKED: Final = re.compile(
    "(?:(?:oh|ah|ooh|hmm|wow|ha|well|so|yeah|gosh|and|now) )*"
    f"{TURNS}(?: then| too| eh| though| now)*"
)  # fmt: skip
TURNS_AWAY: Final = re.compile(r"\W*(?:oh |well )?(?:no|nope|nah)\s*[,.;:!-]+\s*\w", re.IGNORECASE)
"""A "no" by itself: what follows is what is wanted instead."""


def may_only_remark(text: str) -> bool:
    """Whether words over us want nothing, for all that can be told from them."""
    return _is_few(text) and (is_remark(text) or not wants(text))


def is_remark(text: str) -> bool:
    """Whether it is a turn of phrase that looks as if it wanted something, and does not."""
    if not _is_few(text) or TURNS_AWAY.match(text):
        return False
    said = plain(text)
    none = NOTHING_OF_IT.fullmatch(said)
    return bool(REMARKED.fullmatch(said) or (none and not _has_marks(none["rest"].strip())))


def wants(text: str) -> bool:
    """Whether something in it is a mark of a wish."""
    as_written = text.rstrip().endswith("?") or NAMED.search(text) or TURNS_AWAY.match(text)
    return bool(as_written) or _has_marks(plain(text))


def _has_marks(said: str) -> bool:
    return bool(BEGINS.match(said) or HAS.search(said))


def _is_few(text: str) -> bool:
    return plain(text).count(" ") < FEW
