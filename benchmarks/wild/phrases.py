"""Templates of simulated speech: ``{a|b}`` is one of the two, ``{a|}`` is optional.

They are worded differently from the sentences that classifiers are trained on, though by the same
authors; a test checks that no five consecutive words are in both.
"""

from __future__ import annotations

from typing import NamedTuple


class Speech(NamedTuple):
    """Templates for an action: before or during it, after it, and of its object alone."""

    announced: tuple[str, ...]
    afterwards: tuple[str, ...]
    mentioned: tuple[str, ...]


ACTIONS: dict[str, Speech] = {
    "put-wheel": Speech(
        (
            "{alright|okay} so this is the good {tire|wheel} and {I'm just gonna|we will} pop it on {the hub|there} like this",
            "so we get the {replacement|spare} up {onto|on} the car {here|} and {it|that} sits on these five studs",
            "{I'll|let me} lift the {spare|wheel} up with my foot and {get it|shove it} onto the {bolts|studs}",
            "next thing is mounting our {fresh|replacement} wheel so line the holes up {first|}",
            "{time to|and then we} stick the {spare tire|other wheel} on where the old one was",
        ),
        (
            "{there we go|boom} the {spare|new wheel} is on {the car|the hub} {now|}",
            "and that's the {new tire|wheel} hanging on the studs {nicely|by itself}",
        ),
        (
            "I bought these {wheels|tires} {used|last spring} and they still look great",
            "the {spare|wheel} in my trunk is a full size {one|}",
        ),
    ),
    "withdraw-wheel": Speech(
        (
            "{so|and} I'm gonna {yank|pull} this {wheel|tire} {right|straight} off {of there|}",
            "with {every|each} nut gone {you can|we can} take the whole wheel off {of|} the hub",
            "{let's|we can now} get {this|that} flat {tire|} off the {car|vehicle} {it's heavy|}",
            "rock it {left and right|a bit} and the {tire|wheel} slides {right|} off",
            "{okay|now} removing the {busted|bad|flat} {wheel|tire} careful with your back",
        ),
        (
            "{and|so} there's the wheel off {its hub|} and you can see the {rotor|brake}",
            "that's the {bad|old|flat} tire {removed|off} {I'll roll it out of the way|}",
        ),
        (
            "that tire has been losing air {for weeks|since monday}",
            "these {alloy|steel} wheels {get dirty|rust} {fast|so fast}",
        ),
    ),
    "open-oyster": Speech(
        (
            "{stick|jam} the tip in {by|at} the hinge {here|} give it a {twist|turn} and it {pops|opens} {right|} up",
            "{so|now} I'm {prying|popping} this {guy|oyster|one} open {with the blade|slowly}",
            "{feel|wait} for the hinge to {give|crack} then the {oyster|shell} {just|} opens up",
            "{here goes|let's do} another {oyster|one} knife in twist and {open|the shell is open}",
            "work around {the edge|} and pull the upper shell {off|away} {of|from} the oyster",
        ),
        (
            "{look at that|beautiful} {it's|an} open {oyster|} {sitting|full} in {its|the} shell",
            "and that's one oyster {shucked|opened} {for you|}",
        ),
        (
            "oysters like these cost a dollar {each|apiece} {down|} at the docks",
            "my {dad|uncle} could shuck a hundred oysters an hour",
        ),
    ),
    "pour-coffee": Speech(
        (
            "{alright|so} let's {pour|get} some of this coffee in {a|the} {cup|mug}",
            "{and|} I'm pouring {the coffee|it} {nice and slow|carefully} in {my|the} {favorite|white|} {cup|mug}",
            "{time|ready} to fill {up|} the {mug|cup} with {our|that} {fresh|hot} coffee",
            "let me {grab the carafe|take that jug} and pour {you|us|out} a {cup|coffee}",
            "{now|} the {best|fun} part pouring {the|your} brew into {the|a} {cup|mug}",
        ),
        (
            "{there it is|look at that} a full {cup|mug} of coffee",
            "that's {the|my} cup filled {up|} {right|} to the {rim|brim} with coffee",
        ),
        (
            "I drink {three|way too many} cups {of coffee|} a day",
            "this coffee comes from {ethiopia|a small roaster in town}",
        ),
    ),
    "open-fridge": Speech(
        (
            "{so|okay} I {go|walk} over and open {up|} {my|our|this} {fridge|refrigerator}",
            "{let's|we'll} {get|have} the {fridge|refrigerator} open {and see what we've got|}",
            "{I'm|now I'm} {opening|gonna open} the {fridge|refrigerator} {door|} {here|} {real quick|}",
            "{watch|see} what happens as I pull {this|the} {fridge|refrigerator} door open",
        ),
        (
            "{so|and} with the {fridge|refrigerator} {wide|} open you {see|notice} {three shelves|how messy it is}",
            "okay {fridge|the refrigerator} is open",
        ),
        (
            "our {fridge|refrigerator} is {almost|about} twenty years old",
            "{my kids|people} leave the fridge standing open all the time",
        ),
    ),
    "close-fridge": Speech(
        (
            "{and|so} I'll {just|} {close|shut} {up|} {my|this} {fridge|refrigerator} {again|}",
            "{let's|we} {get|push} the {fridge|refrigerator} {door|} closed {before it warms up|}",
            "{now|} {I'm|we're} {shutting|closing} {my|that} {fridge|refrigerator} {door|} {gently|}",
            "{kick|bump} the {fridge|refrigerator} {door|} shut with {my|your} {hip|elbow}",
        ),
        (
            "{okay|} {the|so the} {fridge|refrigerator} is {shut|closed} {now|again}",
            "{hear that click|good} {that's|so} the {fridge|refrigerator} closed",
        ),
        (
            "this {fridge|refrigerator} {hums|makes noise} all night",
            "{a|the} fridge like this {uses|needs} {a lot of|} power",
        ),
    ),
    "place-plant": Speech(
        (
            "{so|and} {I'll|we} {drop|pop|set} {our|this little} {plant|guy|fern} {down|} into {its|the} new {home|pot}",
            "{let's|we} get {the plant|this one} {seated|sitting} {right|} in the {middle|center} of {that|our} {pot|planter}",
            "{I'm|now I'm} {placing|putting} {it|this plant|our seedling} in {there|that pot|that hole} {roots first|carefully}",
            "{then|} our {plant|tomato|basil} goes {in|into} {that|its} {pot|hole|planter} {stem straight|}",
        ),
        (
            "{so|and} {he's|it's|the plant is} {sitting|standing} in {his|the new} pot {now|}",
            "{that's|there's} the plant {planted|in place} {nice and straight|}",
        ),
        (
            "this plant was {a gift|on sale} and {it's|it was} {nearly|half} dead",
            "{you should|always} pick a plant that {likes|can stand} shade",
        ),
    ),
    "drawer-open": Speech(
        (
            "{so|and} I {pull|tug|yank} {this|the top|that} drawer {right|} open",
            "{let's|I'll} {get|have} {this|that} drawer open {here|} {for a second|}",
            "{I'm|now I'm} {opening|pulling out|sliding out} {this|the little} drawer {slowly|}",
            "reach {for|out to} the {handle|knob} and {slide|bring} that drawer out {to me|}",
        ),
        (
            "{and|so} {that|the} drawer is {wide|all the way|} open {now|}",
            "{there|okay} the drawer came {right|} out",
        ),
        (
            "this drawer {squeaks|sticks} in the {winter|summer}",
            "I keep {batteries|old receipts} in a drawer like {this|that}",
        ),
    ),
    "drawer-close": Speech(
        (
            "{so|and} I {push|slide|shove} {this|the top|that} drawer {back|} {shut|closed}",
            "{let's|I'll} {get|have} {this|that} drawer {closed|shut} {again|}",
            "{I'm|now I'm} {closing|shutting|pushing in} {this|the little} drawer {slowly|}",
            "a {little|gentle} nudge and {that|our} drawer goes {right|} back in",
        ),
        (
            "{and|so} {that|the} drawer is {shut|closed} {now|again}",
            "{there|okay} {the|our} drawer went back in",
        ),
        ("these drawers have {soft|no} runners", "the drawer {front|bottom} is {made of|} oak"),
    ),
    "door-open": Speech(
        (
            "{so|and} I {pull|swing|push} {this|the little|that} door {right|wide|} open",
            "{let's|I'll} {get|have} {this|that} door open {here|}",
            "{I'm|now I'm} {opening|gonna open} {up|} {this|the little|our} door {slowly|}",
            "{press|turn} the {latch|handle} and {then|} that door {comes|swings} {right|} open",
        ),
        (
            "{and|so} {that|the} door is {wide|standing|} open {now|}",
            "{there|okay} {the|our} door {came|swung} open",
        ),
        (
            "the door {was|is} painted {green|years ago}",
            "behind {this|the} door is {the|a} storage room",
        ),
    ),
    "door-close": Speech(
        (
            "{so|and} I {push|swing|press} {this|the little|that} door {back|right|} {shut|closed}",
            "{let's|I'll} {get|have} {this|that} door {closed|shut} {again|here|}",
            "{I'm|now I'm} {closing|gonna shut} {up|} {this|the little|our} door {slowly|}",
            "a {small|gentle} push and {then|} that door {falls|goes} {right|} shut",
        ),
        (
            "{and|so} {that|the} door is {shut|closed} {now|again}",
            "{there|okay} {the|our} door {fell|went} shut",
        ),
        (
            "the door {squeaks|rattles} {a lot|in winter}",
            "{this|the} door has {two|three} {brass|} hinges",
        ),
    ),
    "window-open": Speech(
        (
            "{so|and} I {push|slide|shove} {this|the little|that} window {right|wide|} open",
            "{let's|I'll} {get|have} {this|that} window open {for fresh air|here|}",
            "{I'm|now I'm} {opening|gonna open} {up|} {this|the little|our} window {slowly|}",
            "{take|hold} the {grip|handle} and {slide|move} {that|our} window {over|across} {to open it|}",
        ),
        (
            "{and|so} {that|our} window is {wide|} open {now|}",
            "{there|okay} {the|our} window {went|slid} open",
        ),
        (
            "the window faces {south|the street}",
            "you can {hardly|barely} see through {this|that} window",
        ),
    ),
    "window-close": Speech(
        (
            "{so|and} I {push|slide|shove} {this|the little|that} window {back|right|} {shut|closed}",
            "{let's|I'll} {get|have} {this|that} window {closed|shut} {again|here|}",
            "{I'm|now I'm} {closing|gonna shut} {up|} {this|the little|our} window {slowly|}",
            "{take|hold} the {grip|handle} and {bring|move} {that|our} window {back|} {to close it|}",
        ),
        (
            "{and|so} {that|our} window is {shut|closed} {now|again}",
            "{there|okay} {the|our} window {went|slid} shut",
        ),
        (
            "the window {was|got} {cleaned|replaced} {last week|in march}",
            "{there's|} dust on {the|this} window {frame|sill}",
        ),
    ),
    "faucet-open": Speech(
        (
            "{so|and} I {turn|twist|switch} {this|the kitchen|that} {faucet|tap} on",
            "{let's|I'll} {get|have} {the|some} water {running|going} {here|from the faucet}",
            "{I'm|now I'm} {turning on|opening} {this|our} {faucet|tap} {slowly|}",
            "{give|} the {faucet|tap} handle {a turn|} {and|so} the water {comes|runs} out",
        ),
        (
            "{and|so} {that|the} {faucet|tap} is {on|open|running} {now|}",
            "{there|okay} the water is {flowing|running}",
        ),
        (
            "this faucet is {brass|chrome} and {weighs a ton|cost me forty bucks}",
            "the faucet {has been dripping|never dripped} {for years|}",
        ),
    ),
    "faucet-close": Speech(
        (
            "{so|and} I {turn|twist|switch} {this|the kitchen|that} {faucet|tap} {back|} off",
            "{let's|I'll} {get|have} {the|our} water {stopped|off} {here|again}",
            "{I'm|now I'm} {turning off|shutting} {this|our} {faucet|tap} {slowly|}",
            "{give|} the {faucet|tap} handle {a turn|} back {and|so} the water {quits|stops}",
        ),
        (
            "{and|so} {that|the} {faucet|tap} is {off|shut} {now|again}",
            "{there|okay} no more water {comes|is coming} out",
        ),
        (
            "{this|the} faucet {came|comes} with {the|a} {sink|hose}",
            "{my|the} old faucet {leaked|was ugly}",
        ),
    ),
    "box-close": Speech(
        (
            "{so|and} I {put|drop|lay} {this|the|that} {lid|cover} {right|back|} on {that|our|my} box",
            "{let's|I'll} {get|have} {this|that} box {closed|shut} {up|} {here|}",
            "{I'm|now I'm} {closing|gonna close} {up|} {this|our little|our} box {with the lid|}",
            "the {lid|cover} {goes|comes} {down|} on {this|our} box {like so|}",
        ),
        (
            "{and|so} {that|our} box is {shut|closed} {now|}",
            "{there|okay} the {lid|cover} {is|sits} on {the|that} box",
        ),
        (
            "the box {is|was} {cardboard|plywood} with a {nice|blue} finish",
            "I {got|found} this box at {a garage sale|work}",
        ),
    ),
    "coffee-pull": Speech(
        (
            "{so|and} I {pull|drag|take} {this|my|that} {mug|cup} {away|out} from {that|our|under this} machine",
            "{let's|I'll} {get|have} {this|that} {mug|cup} {off|out of} {that|our} coffee {maker|machine}",
            "{I'm|now I'm} {pulling|taking|sliding} {my|our} {mug|cup} {back|out} {slowly|}",
            "{grip|take} {its|} the handle and bring {that|my} {mug|cup} {back|over} to {me|us}",
        ),
        (
            "{and|so} {that|the} {mug|cup} is {away from|out of} {that|our} machine {now|}",
            "{there|okay} {the|our} {mug|cup} came out {from under the spout|}",
        ),
        (
            "this mug {says|has} {world's best dad|a chip in it}",
            "{the|our} coffee machine needs {descaling|a service}",
        ),
    ),
}

SCENES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "car": (
        ("withdraw-wheel", "put-wheel"),
        (
            "{so|} {first|} crack {all|} the lug nuts {loose|} while {it's|} still on the ground",
            "{slide|roll} the jack {in|} behind the front {wheel|arch} and {start|} pumping",
            "{all|these} five nuts {come|spin} off {by hand|with the breaker bar}",
            "{snug|run} the nuts {up|down} {in|} a criss cross {pattern|}",
            "drop the {car|jack} {down|} {slowly|} and do the final torque",
            "{I always|you should} check {the air|your pressures} with {a|this} gauge",
            "brake {rotor|disc} has {some|a lot of} rust {on it|} {not a big deal|}",
            "throw {the|your} tools {back|} in the {boot|trunk}",
            "{this|the} wheel {wrench|iron} came with the car",
        ),
    ),
    "oysters": (
        ("open-oyster",),
        (
            "{give|} them {all|} a {good|} {scrub|brush} in the sink",
            "{this|the} glove {saves|protects} your {palm|fingers}",
            "now {free|cut} the meat from {underneath|its muscle}",
            "{some|a bit of} lemon {juice|} {and|or} tabasco {on top|}",
            "lay {them|these} on {a bed of|} ice {with the flat side up|}",
            "{dump|keep} the {liquor|juice} it's {so|} salty",
            "{I like|get} a {cheap|good} {stubby|short} knife {for this|}",
            "any shell that gapes {like this|} goes {in|} the {garbage|trash}",
        ),
    ),
    "coffee": (
        ("pour-coffee",),
        (
            "{I|we} grind {about|} twenty grams {of beans|} {pretty|} coarse",
            "water goes {in|} {up|} to the {little|} line",
            "{heat|bring} the kettle {up|} to {just|} under boiling",
            "swirl {it|} and {wait|} for the drawdown",
            "{press|plunge} {it|} {all the way|} down {gently|}",
            "{a|some} splash of {oat|} milk {if you like|}",
            "toss the {puck|filter} {and|} rinse {everything|}",
            "the {roast|bag} was {opened|bought} {last week|}",
        ),
    ),
    "kitchen": (
        ("open-fridge", "close-fridge"),
        (
            "{I|we} {grab|take out} {the|some} {eggs|milk|butter} {and|} set {it|them} on the {counter|side}",
            "{chop|dice} {the|an} onion {very|} {finely|small}",
            "{whisk|beat} {it|that} {all|} {together|} in a {big|} bowl",
            "leftovers {go|belong} on the {second|lower} shelf",
            "{turn|set} {the|your} {oven|stove} to {one eighty|medium}",
            "{scrub|clean} {this|the} shelf {because something leaked|}",
            "{these|the} carrots {are|look} {a bit|} tired",
            "{snap|put} a lid on {that|those leftovers}",
        ),
    ),
    "garden": (
        ("place-plant",),
        (
            "{scoop|shovel} {some|} {fresh|} {dirt|potting mix} {in|} {first|}",
            "{tickle|tease} the roots {apart|} {a little|}",
            "{tap|knock} {the|} bottom {of the old pot|} {and it slips out|}",
            "{backfill|top up} {around|} {the sides|} and {firm|pat} {it|} {down|}",
            "{soak|water} {it|} {until it drains|really well}",
            "{snip|trim} {the|} yellow {bits|leaves}",
            "{these|the} {terracotta|clay} pots {breathe|} {better|}",
            "{find|} a {sunny|bright} windowsill {for it|}",
        ),
    ),
    "robot": (
        (
            "drawer-open",
            "drawer-close",
            "door-open",
            "door-close",
            "window-open",
            "window-close",
            "faucet-open",
            "faucet-close",
            "box-close",
            "coffee-pull",
        ),
        (
            "{the|our} arm {moves|swings} {over|} to {the|its} {other side|home position}",
            "{the|its} gripper {opens|closes} {once|} {as a test|}",
            "{I|we} {move|shift} the {block|puck|cube} {out of the way|a little}",
            "{let me|I'll} {fix|move} {the|this} camera {a bit|}",
            "{the|this} table {wobbles|is a bit dusty}",
            "{nothing|not much} {happens|going on} {here|} {for a moment|}",
            "{we|I} {wait|pause} {until|while} {the|our} controller {settles|catches up}",
            "{that|the} red thing {is|is only} {there|} {to distract|for decoration}",
        ),
    ),
}

PROMISES = (
    "later in this video {you'll see|I'll show you} how {I|we} {first|} {summary}",
    "{in a few minutes|at some point} {I|we} will {summary} {but first things first|}",
)

SUMMARIES = {
    "put-wheel": "get the spare onto the car",
    "withdraw-wheel": "get the flat off",
    "open-oyster": "shuck an oyster",
    "pour-coffee": "pour a nice coffee",
    "open-fridge": "look in the fridge",
    "close-fridge": "shut the fridge",
    "place-plant": "get this plant potted",
    "drawer-open": "pull a drawer open",
    "drawer-close": "shut a drawer",
    "door-open": "open a door",
    "door-close": "shut a door",
    "window-open": "get a window open",
    "window-close": "get a window shut",
    "faucet-open": "run the tap",
    "faucet-close": "stop the tap",
    "box-close": "shut a box",
    "coffee-pull": "take the mug out",
}

CHATTER = (
    "{hey|hi} {guys|folks|there} {what's up|good to see you} {again|}",
    "{my|the} wife {says|thinks} {I'm|we're} {crazy|wasting time}",
    "{by the way|oh} {the|} links {are|} below",
    "{if|} {that|this} helped you {give me|leave} a thumbs up",
    "{it's|} {really|} {hot|cold} {out|in} here {today|}",
    "{sorry|} {about|} the {noise|dog} {in the background|}",
    "{I|we} {learned|figured} {this|it} {out|} the hard way",
    "{anyway|so} where {was I|were we}",
    "{some|} people {ask|wonder} {me|} how long {this|it} takes",
    "{it|this} {isn't|is not} rocket science {really|}",
    "{hang on|wait} {a|one} second",
    "{not|} {too|} bad {for|} {a|the} first try",
    "{okay|right} {next|} {step|} {then|}",
    "{you|} see {what I mean|how easy}",
    "{catch|see} you {in the next one|soon} {bye|take care}",
)

HESITATIONS = ("um", "uh", "like", "you know", "sort of", "I mean")

MISHEARD = {
    "wheel": ("will", "we'll"),
    "tire": ("tired", "entire"),
    "off": ("of",),
    "studs": ("stuff",),
    "spare": ("spear",),
    "hub": ("hop", "hob"),
    "nuts": ("nods",),
    "oyster": ("roister", "oysters"),
    "shell": ("shall", "cell"),
    "hinge": ("hinch",),
    "knife": ("night",),
    "pour": ("poor", "pore"),
    "coffee": ("copy", "coughing"),
    "cup": ("cop", "cut"),
    "mug": ("mud", "mark"),
    "fridge": ("bridge", "french"),
    "refrigerator": ("refrigerate her",),
    "door": ("dough", "more"),
    "plant": ("planned", "plan"),
    "pot": ("part", "pod"),
    "drawer": ("draw", "jaw"),
    "open": ("opened", "hope an"),
    "close": ("clothes",),
    "closed": ("clothes",),
    "shut": ("shot",),
    "window": ("windows", "widow"),
    "faucet": ("force it", "facet"),
    "tap": ("tab",),
    "water": ("waiter",),
    "box": ("books", "fox"),
    "lid": ("lit", "little"),
    "machine": ("mission",),
    "to": ("two", "too"),
    "there": ("their",),
    "here": ("hear",),
    "right": ("write",),
    "pull": ("pool",),
    "push": ("bush",),
    "the": ("a",),
    "and": ("in",),
    "it": ("at",),
}
