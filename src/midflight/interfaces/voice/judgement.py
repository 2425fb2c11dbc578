"""Judges a sound: words that want something, a remark, an assent, noise, or nothing reliable."""

from __future__ import annotations

import re
from typing import Final

from midflight.interfaces.voice.lexicon import (
    ASSENTING,
    DOINGS,
    FIRM,
    HOLDING,
    LEAD,
    ORDERED,
    Act,
    any_of,
    approves,
    is_assent,
    meaning,
    plain,
    says_nothing,
    was_not_meant,
)
from midflight.interfaces.voice.speech.speech_engines import Heard
from midflight.interfaces.voice.turn_table import Verdict

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
    """Return whether words said over us want nothing, as far as can be told from them."""
    return _is_few(text) and (is_remark(text) or not wants(text))  # layer order-no-remark


def is_remark(text: str) -> bool:
    """Return whether it is a turn of phrase that only looks as if it wanted something."""
    if not _is_few(text) or TURNS_AWAY.match(text):
        return False
    said = plain(text)
    none = NOTHING_OF_IT.fullmatch(said)
    # layer order-behind-turn-of-phrase
    return bool(REMARKED.fullmatch(said) or (none and not _has_marks(none["rest"].strip())))


def wants(text: str) -> bool:
    """Return whether something in the text marks a wish."""
    as_written = text.rstrip().endswith("?") or NAMED.search(text) or TURNS_AWAY.match(text)
    return bool(as_written) or _has_marks(plain(text))


def _has_marks(said: str) -> bool:
    return bool(BEGINS.match(said) or HAS.search(said))


def _is_few(text: str) -> bool:
    return plain(text).count(" ") < FEW


SURE: Final = 0.58  # of words that are the run's to understand
SURE_IN_NOISE: Final = 0.75  # the same certainty is wrong more often there
SURE_OF_THREE: Final = 0.65  # words of a short sound, not to take them for an assent
SURE_ORDER: Final = 0.7  # of those that act at once
SURE_OVER_US: Final = 0.7  # of few that are said over us: misheard remarks look like anything
SURE_HOLD: Final = 0.35  # to hold costs little, to go on may not
SURE_SHORT: Final = 0.8  # where there are few of them, or one of those is a guess
PLAIN: Final = 0.85  # of a short sound, to take it as it was heard
NEAR: Final = 4.0  # of a lean, to go by it
NEARER: Final = 6.0  # the same where some word is hardly more than a guess
GUESSED, SPOKEN = 0.3, 0.4  # of that word: between them, between those
EACH: Final = 0.7  # of each word of an assent, to need no lean
HARDLY: Final = 0.6  # of each word that is said over us in a moment, to be words at all
GARBLED: Final = 0.45  # what is heard so badly is near to nothing
AGAINST: Final = -4.0
LIKELY: Final = -8.0  # the logarithm of the chance of a control, to ask where others were heard
RHYMES: Final = frozenset({"great", "oh", "so"})  # with "wait" and "no": to be taken with care
SHORT_MS: Final = 1_100
SHORT_WORDS: Final = 3
SLOW_MS: Final = 1_500  # so long people take for as few words
BRIEF_MS: Final = 600  # what is said to show that one listens takes no longer, mostly
BREATH_MS: Final = 160  # a sound as short as this in which nothing is heard holds no word


def judge(
    heard: Heard,
    spoke_ms: int,
    *,
    whole: bool = True,
    held: bool = True,
    noisy: bool = False,
    asked: bool = False,
    remarked: bool = False,
    awaited: bool = False,
) -> Verdict:
    """Return the verdict on a sound of this length. In doubt, ask: no order is passed over.

    Unless the sound has ``held`` us, being near to an assent does not make it one: it would be an
    answer. A person who was ``asked`` to repeat their words is not asked again for saying the same.
    After we have ``remarked`` that the words should be repeated if they were for us, "no" says that
    they were not. Words that are ``awaited`` are never a remark: they are an answer, are said with
    the key down, or there is nobody left to ask.
    """
    over_us = held and not (asked or awaited)  # layer words-of-cannot-asked-need
    verdict = _judge(
        heard, spoke_ms, whole=whole, held=held, noisy=noisy, asked=asked, over_us=over_us
    )
    if verdict is not Verdict.WORDS:
        return verdict
    if remarked and held and not awaited and was_not_meant(heard.text):  # layer remark-not-meant
        return Verdict.BACKCHANNEL
    if over_us and _seems_a_remark(heard.text):  # layer remark-over-us-no-message
        # layer beginning-of-remark-ends-no-turn
        return Verdict.REMARK if whole else Verdict.UNCLEAR  # its end may tell
    return verdict


def _seems_a_remark(text: str) -> bool:
    """Return whether words that were surely heard seem to want nothing."""
    meant = meaning(text)
    match meant.act:
        case Act.SAY:
            return not meant.asks_nothing and may_only_remark(text)
        case Act.NO | Act.REDIRECT:  # "oh no", "no surprise there"
            return is_remark(text)
        case _:
            return False


def _judge(
    heard: Heard,
    spoke_ms: int,
    *,
    whole: bool,
    held: bool,
    noisy: bool,
    asked: bool,
    over_us: bool,
) -> Verdict:
    words = plain(heard.text).split()
    short = spoke_ms <= SHORT_MS and len(words) <= SHORT_WORDS
    if heard.confidence is None:
        known = _judge_by_words(heard.text, words, spoke_ms, short=short, whole=whole, held=held)
        doubtful = _approves_for_all_we_know(heard.text, words) and not asked
        # layer okay-of-nobody-knows-how-sure
        return Verdict.UNCLEAR if known is Verdict.WORDS and doubtful else known
    act = meaning(heard.text).act
    if act not in {Act.SAY, Act.YES, Act.NO, Act.REDIRECT}:
        needed = SURE_HOLD if act in HOLDING else SURE_ORDER
        return Verdict.WORDS if heard.confidence >= needed else Verdict.UNCLEAR
    if is_assent(heard.text):
        return _judge_assent(heard, words, heard.confidence, short=short, held=held)
    # sure of three words is sure
    few = len(words) < SHORT_WORDS or heard.confidence < SURE_OF_THREE
    ordered = " ".join(words) in ORDERED  # whatever it leans to
    needed = _near(heard) * max(1.0, spoke_ms / BRIEF_MS)  # longer: plainer
    near = heard.lean >= needed and heard.confidence >= GARBLED and not ordered
    if whole and held and short and few and near:
        return Verdict.BACKCHANNEL
    if whole and ordered and heard.lean <= AGAINST and heard.confidence >= GARBLED:
        return Verdict.WORDS  # heard as an order to the letter, and nothing else is near
    if words in ([], ["you"]):  # what recognisers write for a breath
        return Verdict.NOISE if spoke_ms < BREATH_MS else Verdict.UNCLEAR
    if not whole:  # nothing is lost by waiting for the end
        return Verdict.WORDS if heard.confidence >= PLAIN and not short else Verdict.UNCLEAR
    if short and act is Act.SAY and not ordered and _may_be_a_control(heard, words, held=held):
        return Verdict.UNCLEAR
    if held and not (ordered or asked) and _may_be_an_assent(heard, act, spoke_ms):
        return Verdict.UNCLEAR
    few_over_us = over_us and len(words) <= FEW
    needed = _sure(heard, spoke_ms, short=short, noisy=noisy, over_us=few_over_us)
    return Verdict.WORDS if heard.confidence >= needed else Verdict.UNCLEAR


def _judge_assent(
    heard: Heard, words: list[str], confidence: float, *, short: bool, held: bool
) -> Verdict:
    if not held:  # an answer: it may approve, or cancel
        return Verdict.WORDS if confidence >= SURE_SHORT else Verdict.UNCLEAR
    rhymes = set(words) <= RHYMES and confidence < PLAIN
    # layer one-unsure-assent-not-passed-over
    assents = plain(heard.text.replace("-", "")).split()  # "mm-hmm" is one
    single = sum(word in ASSENTING for word in assents) < 2  # no order is misheard as two of them
    doubtful = single and _worst(heard) < EACH
    needed = _near(heard) if rhymes or doubtful else AGAINST
    weighed = short or doubtful  # layer long-assent-hardly-heard-may-have
    return Verdict.UNCLEAR if weighed and heard.lean < needed else Verdict.BACKCHANNEL


def _sure(heard: Heard, spoke_ms: int, *, short: bool, noisy: bool, over_us: bool) -> float:
    """Return the confidence that words for the run need."""
    needed = SURE_SHORT if short else SURE_IN_NOISE if noisy else SURE
    if over_us:
        # layer misheard-remarks-over-us-asked
        needed = max(needed, SURE_SHORT if _worst(heard) < SPOKEN else SURE_OVER_US)
    return max(needed, SURE_OF_THREE) if spoke_ms <= SHORT_MS else needed  # many in a moment: none


def _may_be_a_control(heard: Heard, words: list[str], *, held: bool) -> bool:
    """Return whether apparent words for the run may be a "wait" that was heard a little wrong.

    A single word that nobody knows is seldom said over us, but it is often an answer.
    """
    alone = held and len(words) == 1 and _worst(heard) < EACH  # layer wait-heard-little-wrong
    return alone or heard.control > LIKELY  # layer words-nearly-as-likely-order


def _may_be_an_assent(heard: Heard, act: Act, spoke_ms: int) -> bool:
    """Return whether apparent words for the run may be an assent that was misheard.

    They are words that nobody says by themselves ("and then"), or they are few and one of them was
    hardly heard.
    """
    if act is Act.REDIRECT:
        return False
    few = len(plain(heard.text).split()) <= SHORT_WORDS
    if spoke_ms > (SLOW_MS if few else SHORT_MS):
        return False
    # layer hardly-heard-over-us-does
    return _worst(heard) < HARDLY or (act is Act.SAY and says_nothing(heard.text))


def _worst(heard: Heard) -> float:
    """Return the confidence of the word that the engine is least sure of."""
    return min((word.confidence for word in heard.words), default=heard.confidence or 0.0)


def _near(heard: Heard) -> float:
    """Return how much nearer to an assent than to an order the words must be to be passed over."""
    doubt = (SPOKEN - _worst(heard)) / (SPOKEN - GUESSED)
    return NEAR + (NEARER - NEAR) * min(max(doubt, 0.0), 1.0)


def _judge_by_words(
    text: str, words: list[str], spoke_ms: int, *, short: bool, whole: bool, held: bool
) -> Verdict:
    """The same where nobody says how sure they are: of short sounds, what is known was heard."""
    if words in ([], ["you"]):
        return Verdict.NOISE if spoke_ms < BREATH_MS else Verdict.UNCLEAR
    act = meaning(text).act
    if is_assent(text) and held:
        return Verdict.UNCLEAR if short and set(words) <= RHYMES else Verdict.BACKCHANNEL
    known = act is not Act.SAY or is_assent(text) or " ".join(words) in ORDERED
    if known and (whole or act in HOLDING):
        return Verdict.WORDS
    return Verdict.WORDS if whole and not short else Verdict.UNCLEAR


def _approves_for_all_we_know(text: str, words: list[str]) -> bool:
    """Return whether the text may approve something without a plain "yes".

    Recognisers write "okay" for a breath. Where the engine does not say how sure it is, the person
    is asked once.
    """
    return (meaning(text).act is Act.YES or approves(text)) and FIRM.isdisjoint(words)
