"""The protecting layers of voice: what words may answer, stop and begin; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Mutant, Swap, Value, Without

QUESTIONS = "tests/voice/test_questions.py::test_"
OTHERS = "tests/voice/test_questions_of_others.py::test_"
ODD = "tests/voice/test_odd_moments.py::test_"
JUDGING = "tests/voice/test_judging.py::test_"
WANTING = "tests/voice/test_wanting.py::test_"
REMARKS = "tests/voice/test_remarks.py::test_"
FAULTS = "tests/voice/test_faults.py::test_"
LINE = "tests/voice/test_line.py::test_"
HANGING_UP = "tests/voice/test_hanging_up.py::test_"
LEXICON = "tests/voice/test_lexicon.py::test_"
PAGE = "tests/voice/test_page_sink.py::test_"
ENDPOINT = "tests/voice/test_endpoint.py::test_"
MOUTH = "tests/voice/test_mouth.py::test_"

VOICE_MUTANTS = (
    Mutant(
        "voice: an ear that makes everybody wait again is not asked any more",
        "ear-makes-everybody-wait-again",
        NEVER,
        (FAULTS + "an_ear_that_takes_a_second_for_one_frame_again_is_not_asked_any_more",),
    ),
    Mutant(
        "voice: a machine that stops once does not cost the ear",
        "machine-stops-once-does-not-cost",
        Value("0"),
        (FAULTS + "a_machine_that_stops_once_for_a_second_does_not_cost_the_ear",),
    ),
    Mutant(
        "voice: nobody answers a question that they have not heard",
        "nobody-answers-question",
        Without(0),
        (
            QUESTIONS
            + "words_are_no_answer_to_an_approval_that_nobody_has_heard_and_it_is_asked_then",
        ),
    ),
    Mutant(
        "voice: of several questions none is answered before it is plain which is meant",
        "several-questions-none-answered",
        Swap("1", "99"),
        (
            QUESTIONS
            + "a_yes_to_two_questions_in_a_row_is_asked_about_and_they_are_taken_one_by_one",
        ),
    ),
    Mutant(
        "voice: a yes to what the front has said since is no approval of other work",
        "yes-to-what-front-has-said",
        NEVER,
        (OTHERS + "a_yes_after_other_words_of_the_front_is_asked_about",),
    ),
    Mutant(
        "voice: words to the front are not for who has asked something else long ago",
        "words-to-front-not-for-has",
        ALWAYS,
        (
            OTHERS + "a_yes_in_a_conversation_with_the_front_is_not_the_helpers",
            OTHERS + "other_words_are_an_answer_only_right_after_who_has_asked_for_words",
        ),
    ),
    Mutant(
        "voice: the front is not redirected to what other work was told",
        "front-not-redirected-to-what-other",
        Value("None"),
        (OTHERS + "a_redirect_right_after_it_is_asked_about_once_and_then_is_the_fronts",),
    ),
    Mutant(
        "voice: what a person has taken over is theirs to answer",
        "person-has-taken-over-theirs",
        Without(2),
        (OTHERS + "nobody_but_who_has_taken_it_over_answers_for_it_by_voice",),
    ),
    Mutant(
        "voice: a polite word after stop does not cancel",
        "polite-word-after-stop-does",
        Swap("cancels(meant.said)", "meant.act is Act.YES"),
        (LINE + "a_polite_word_after_stop_keeps_it_paused_and_is_asked_again",),
    ),
    Mutant(
        "voice: half an utterance approves, cancels and redirects nothing",
        "half-utterance-approves-cancels",
        NEVER,
        (
            HANGING_UP + "half_an_utterance_answers_nothing_and_is_a_message_that_says_so",
            HANGING_UP + "half_a_yes_cancels_nothing_either",
        ),
    ),
    Mutant(
        "voice: an answer that begins with the question's last sample is no assent to it",
        "answer-begins-with-question-last",
        Without(1),
        (ODD + "an_answer_that_begins_with_the_questions_last_sample_is_one",),
    ),
    Mutant(
        "voice: a yes that is said again as was asked for is no assent either",
        "yes-said-again-as-asked",
        Swap("(*self._now, *self._aside)", "self._now"),
        (ODD + "a_yes_that_is_said_again_as_was_asked_for_answers_the_question",),
    ),
    Mutant(
        "voice: a wait that was heard a little wrong is no message",
        "wait-heard-little-wrong",
        Value("False"),
        (JUDGING + "a_wait_that_was_heard_a_little_wrong_is_asked_about_and_is_no_message",),
    ),
    Mutant(
        "voice: words that are nearly as likely an order to wait are asked about",
        "words-nearly-as-likely-order",
        Without(1),
        (JUDGING + "a_wait_that_was_heard_a_little_wrong_is_asked_about_and_is_no_message",),
    ),
    Mutant(
        "voice: one unsure assent is not passed over for having two syllables",
        "one-unsure-assent-not-passed-over",
        Value("plain(heard.text).split()"),
        (JUDGING + "two_syllables_of_one_assent_are_not_two_assents",),
    ),
    Mutant(
        "voice: what is hardly heard over us does not end our turn",
        "hardly-heard-over-us-does",
        Without(0),
        (JUDGING + "a_word_that_is_hardly_heard_makes_words_of_a_short_sound_over_us_unclear",),
    ),
    Mutant(
        "voice: words that tell nothing do not end our turn",
        "hardly-heard-over-us-does",
        Without(1),
        (JUDGING + "words_that_tell_nothing_are_asked_about_where_they_are_said_over_us",),
    ),
    Mutant(
        "voice: a remark over us is no message",
        "remark-over-us-no-message",
        NEVER,
        (WANTING + "a_remark_over_us_is_neither_a_message_nor_passed_over",),
    ),
    Mutant(
        "voice: an order is no remark for having few words",
        "order-no-remark",
        Without(1),
        (WANTING + "what_has_a_mark_of_a_wish_or_is_long_is_taken",),
    ),
    Mutant(
        "voice: the beginning of a remark ends no turn",
        "beginning-of-remark-ends-no-turn",
        Swap("UNCLEAR", "WORDS"),
        (WANTING + "the_beginning_of_what_may_be_a_remark_ends_no_turn",),
    ),
    Mutant(
        "voice: a remark in which a line stands still is not lost",
        "remark-in-line-stands-still",
        Without(2),
        (REMARKS + "of_a_line_that_stands_still_in_the_midst_of_it_nobody_is_asked",),
    ),
    Mutant(
        "voice: a remark of who hangs up meanwhile is not lost",
        "remark-of-hangs-up-meanwhile",
        Value("moment.awaited"),
        (REMARKS + "of_who_hangs_up_while_it_is_made_out_what_was_said_is_a_message",),
    ),
    Mutant(
        "voice: what is said with the key down is no remark",
        "remark-in-line-stands-still",
        Without(1),
        (REMARKS + "who_holds_a_key_down_to_talk_says_it_to_the_agent",),
    ),
    Mutant(
        "voice: what is said over a question or right after it is no remark",
        "remark-in-line-stands-still",
        Without(0),
        (
            REMARKS + "what_is_said_over_a_question_is_an_answer_to_it",
            "tests/voice/test_questions_of_others.py"
            "::test_an_answer_that_comes_as_other_words_begin_is_no_remark",
        ),
    ),
    Mutant(
        "voice: a remark that is said again over our asking is taken",
        "remark-said-again-over",
        Swap("True", "True, asked=False"),
        (REMARKS + "who_says_it_again_over_that_very_sentence_is_heard",),
    ),
    Mutant(
        "voice: that a remark was not meant answers nothing else",
        "remark-not-meant",
        NEVER,
        (REMARKS + "who_says_no_to_that_or_only_assents_hears_it_on_and_has_said_nothing_else",),
    ),
    Mutant(
        "voice: words of who cannot be asked need not be surer",
        "words-of-cannot-asked-need",
        Value("held and not asked"),
        (
            JUDGING
            + "few_words_have_to_be_surer_over_us_than_in_silence_unless_they_were_asked_for",
        ),
    ),
    Mutant(
        "voice: an order behind a turn of phrase is no remark",
        "order-behind-turn-of-phrase",
        Swap('(none and not _has_marks(none["rest"].strip()))', "none"),
        (WANTING + "what_has_a_mark_of_a_wish_or_is_long_is_taken",),
    ),
    Mutant(
        "voice: misheard remarks over us are asked about",
        "misheard-remarks-over-us-asked",
        Swap("SURE_OVER_US", "SURE"),
        (
            JUDGING
            + "few_words_have_to_be_surer_over_us_than_in_silence_unless_they_were_asked_for",
        ),
    ),
    Mutant(
        "voice: few words over us of which one is a guess are asked about",
        "misheard-remarks-over-us-asked",
        NEVER,
        (JUDGING + "few_words_over_us_of_which_one_is_a_guess_have_to_be_surer_still",),
    ),
    Mutant(
        "voice: a long assent that is hardly heard may have been an order",
        "long-assent-hardly-heard-may-have",
        Without(1),
        (JUDGING + "a_long_assent_that_is_hardly_heard_is_asked_about_unless_it_is_near",),
    ),
    Mutant(
        "voice: what a late page had played of words that were cut is none of the next",
        "late-page-had-played",
        ALWAYS,
        (PAGE + "what_a_late_page_had_played_before_the_cut_is_not_taken_for_the_next_words",),
    ),
    Mutant(
        "voice: the line's time goes on where nothing comes from a page",
        "line-time-goes",
        NEVER,
        (ENDPOINT + "a_page_from_which_nothing_comes_any_more_does_not_keep_the_line_held",),
    ),
    Mutant(
        "voice: speech that nobody will say is not made",
        "speech-nobody-will-say-not-made",
        DROP,
        (MOUTH + "a_voice_that_stalls_is_not_asked_again_for_what_was_given_up",),
    ),
    Mutant(
        "voice: an okay of which nobody knows how sure it is approves nothing at once",
        "okay-of-nobody-knows-how-sure",
        NEVER,
        (JUDGING + "where_nobody_says_how_sure_they_are_only_a_firm_yes_approves_at_once",),
    ),
    Mutant(
        "voice: who has said wait or stop is not taken for one who agrees",
        "has-said-wait-or-stop",
        NEVER,
        (LEXICON + "who_has_said_wait_is_not_taken_for_one_who_agrees",),
    ),
    Mutant(
        "voice: what was stopped is not given to a page that has not answered the cut yet",
        "stopped-not-given-to-page",
        Without(1),
        (PAGE + "no_more_is_played_of_what_was_stopped_however_late_the_page_answers",),
    ),
    Mutant(
        "voice: speech that was dropped half made does not keep the line silent",
        "speech-dropped-half-made-does",
        Value("True"),
        (MOUTH + "speech_that_was_dropped_half_made_is_made_anew_if_it_is_said_after_all",),
    ),
    Mutant(
        "voice: a question that a suspended page has not played was not asked",
        "question-suspended-page-has",
        Without(1),
        (ENDPOINT + "a_question_that_comes_while_the_sound_of_a_page_is_suspended_was_not_asked",),
    ),
    Mutant(
        "voice: what is being said when nothing comes any more is half of it, and approves nothing",
        "what-said",
        NEVER,
        (
            ENDPOINT
            + "what_was_said_when_nothing_came_any_more_may_be_half_of_it_and_approves_nothing",
        ),
    ),
    Mutant(
        "voice: the last words of who hangs up do not wait for a page that is gone",
        "last-words-of-hangs-up-do",
        DROP,
        (
            ENDPOINT
            + "who_says_wait_over_us_and_closes_the_page_is_not_waited_for_before_it_is_paused",
        ),
    ),
    Mutant(
        "voice: a yes to what cannot be read out is not taken",
        "yes-to-what-cannot-read-out",
        NEVER,
        (QUESTIONS + "a_yes_to_what_cannot_be_read_out_whole_is_not_taken_and_a_no_is",),
    ),
    Mutant(
        "voice: a yes comes after the values",
        "yes-comes-after-values",
        NEVER,
        (QUESTIONS + "a_yes_before_all_values_were_heard_is_not_taken_and_they_are_read_again",),
    ),
)
