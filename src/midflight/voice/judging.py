"""What a sound was: words, an assent, noise, or nothing that can be relied on.

The thresholds are Moonshine's, chosen with the lists in ``bench/voice`` that are called seen;
decision 43 says how.
"""

from __future__ import annotations

from typing import Final

from midflight.voice.assents import ASSENTING, is_assent, says_nothing
from midflight.voice.lexicon import FIRM, HOLDING, ORDERED, Act, approves, meaning, was_not_meant
from midflight.voice.phrases import plain
from midflight.voice.seams import Heard
from midflight.voice.taking import Verdict
from midflight.voice.wanting import FEW, is_remark, may_only_remark

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
    """What a sound of this length was. In doubt it is asked about: no order is passed over.

    Unless we were ``held`` by it, it is no assent for being near to one: it would be an answer. Who
    was ``asked`` to say it again is not asked for saying the same, and after a remark, if it was
    for us, "no" says that it was not. Words that are ``awaited`` are no remark: they answer, are
    said with the key down, or nobody is left to be asked.
    """
    over_us = held and not (asked or awaited)
    verdict = _judge(
        heard, spoke_ms, whole=whole, held=held, noisy=noisy, asked=asked, over_us=over_us
    )
    if verdict is not Verdict.WORDS:
        return verdict
    if remarked and held and not awaited and was_not_meant(heard.text):
        return Verdict.BACKCHANNEL
    if over_us and _seems_a_remark(heard.text):
        return Verdict.REMARK if whole else Verdict.UNCLEAR  # its end may tell
    return verdict


def _seems_a_remark(text: str) -> bool:
    """Whether nothing seems to be wanted by what was surely heard."""
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
    assents = plain(heard.text.replace("-", "")).split()  # "mm-hmm" is one
    single = sum(word in ASSENTING for word in assents) < 2  # no order is misheard as two of them
    doubtful = single and _worst(heard) < EACH
    needed = _near(heard) if rhymes or doubtful else AGAINST
    weighed = short or doubtful
    return Verdict.UNCLEAR if weighed and heard.lean < needed else Verdict.BACKCHANNEL


def _sure(heard: Heard, spoke_ms: int, *, short: bool, noisy: bool, over_us: bool) -> float:
    """How sure words for the run have to be."""
    needed = SURE_SHORT if short else SURE_IN_NOISE if noisy else SURE
    if over_us:
        needed = max(needed, SURE_SHORT if _worst(heard) < SPOKEN else SURE_OVER_US)
    return max(needed, SURE_OF_THREE) if spoke_ms <= SHORT_MS else needed  # many in a moment: none


def _may_be_a_control(heard: Heard, words: list[str], *, held: bool) -> bool:
    """Whether what seems to be words for the run may be a "wait" that was heard a little wrong.

    One word that nobody knows is seldom said over us; as an answer it is.
    """
    alone = held and len(words) == 1 and _worst(heard) < EACH
    return alone or heard.control > LIKELY


def _may_be_an_assent(heard: Heard, act: Act, spoke_ms: int) -> bool:
    """Whether what seems to be words for the run may be an assent that was heard as others.

    They are words that nobody says by themselves ("and then"), or few, and one is hardly heard.
    """
    if act is Act.REDIRECT:
        return False
    few = len(plain(heard.text).split()) <= SHORT_WORDS
    if spoke_ms > (SLOW_MS if few else SHORT_MS):
        return False
    return _worst(heard) < HARDLY or (act is Act.SAY and says_nothing(heard.text))


def _worst(heard: Heard) -> float:
    """How sure it is of the word that it is least sure of."""
    return min((word.confidence for word in heard.words), default=heard.confidence or 0.0)


def _near(heard: Heard) -> float:
    """How much nearer to an assent than to an order it has to be, to be passed over for that."""
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
    """Whether it may approve something, and is no plain "yes": recognisers write "okay" for breath.

    Where nobody says how sure they are, it is asked about once.
    """
    return (meaning(text).act is Act.YES or approves(text)) and FIRM.isdisjoint(words)
