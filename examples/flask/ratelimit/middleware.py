"""One decision per request, before the view runs."""

import atexit
import tempfile

from flask import g, request

from . import answers
from .batch import Batches
from .counters import Counters
from .emergency import Emergency
from .gate import Fault, Gate, Unavailable
from .identity import Identities
from .rules import Policy, Rules
from .status import add_status


class RateLimits:
    def __init__(self, app, url, default, accounts=None, trusted_proxies=(), workers=1, timeout=0.1, pause=0.5,
                 hold=0.1, prefix="app", rules_file=None, counters_folder=None, admin_token=None):
        self.prefix = prefix
        self.default = default
        self.policies = {}
        self.rules = Rules(rules_file, app.logger.warning)
        self.identities = Identities(accounts or {}, trusted_proxies)
        self.counters = Counters(counters_folder or tempfile.mkdtemp(prefix="ratelimit-"))
        self.gate = Gate(url, self.counters, timeout, pause)
        self.emergency = Emergency(workers)
        self.batches = Batches(self.gate, self.counters, workers, hold)
        self.log = app.logger
        app.before_request(self._before)
        app.after_request(self._after)
        app.extensions["rate-limits"] = self
        add_status(app, self, admin_token)
        atexit.register(self.batches.give_back)

    def limit(self, *limits, **how):
        """Decorates a view: @limits.limit(Limit("search", "SLIDING 100 1m"), unavailable="open")."""
        return self.apply(Policy(limits, **how))

    def apply(self, policy):
        def decorate(view):
            self.policies[view.__name__] = policy
            return view
        return decorate

    def exempt(self, view):
        self.policies[view.__name__] = None
        return view

    def key(self, limit, identity):
        # In a cluster the keys of one caller share a slot by the tag, so that RL.ALL can take them together.
        return f"{self.prefix}:{{{identity}}}:{limit.name}"

    def identity(self, limit):
        if limit.per == "everyone":
            return "everyone"
        return self.identities.address(request) if limit.per == "address" else self.identities.caller(request)

    def decide(self, asked, cost, batch=0):
        """asked: (key, Rule) of every limit. (allowed, wait_ms, five numbers for each)."""
        if batch:
            (key, rule), = asked
            reply = self.batches.take(key, rule, batch)
            return reply[0], reply[3], [reply]
        if len(asked) == 1:
            (key, rule), = asked
            words = [f"RL.{rule.algorithm}", key, *rule.words[1:], "COST", cost]
            reply = self.gate.run(lambda db: db.execute_command(*words))
            return reply[0], reply[3], [reply]
        words = [word for key, rule in asked for word in (key, rule.text(cost))]
        return self.gate.run(lambda db: db.execute_command("RL.ALL", *words))

    def _before(self):
        policy = self.policies.get(request.endpoint, self.default)
        if policy is None:
            return None
        cost = policy.cost() if policy.cost else 1
        rules = [(limit, self.rules.of(limit, bool(policy.batch))) for limit in policy.limits]
        asked = [(self.key(limit, self.identity(limit)), rule) for limit, rule in rules]
        g.limited = rules, None
        try:
            allowed, wait_ms, replies = self.decide(asked, cost, policy.batch)
        except Fault as fault:
            # Its words are for the log: they may tell a caller about keys.
            self.log.error("limits cannot be checked: %s", fault)
            return self._closed(rules)
        except Unavailable:
            return self._blind(asked, cost, rules) if policy.unavailable == "open" else self._closed(rules)
        g.limited = rules, replies
        if allowed:
            self.counters.add("allowed")
            return None
        self.counters.add("never" if wait_ms < 0 else "refused")
        return answers.refused(rules, replies, wait_ms, cost)

    def _closed(self, rules):
        self.counters.add("closed_refused")
        return answers.undecided(1, [limit.name for limit, _ in rules],
                                 "The limits of this route cannot be checked at the moment, and it stays shut till "
                                 "then.")

    def _blind(self, asked, cost, rules):
        wait = self.emergency.admit(asked, cost)
        if wait is None:
            self.counters.add("blind_admitted")
            return None
        self.counters.add("blind_refused")
        return answers.undecided(wait, [limit.name for limit, _ in rules],
                                 "The limits of this route cannot be checked at the moment; fewer requests are served "
                                 "till then.")

    def _after(self, response):
        if "limited" in g:
            answers.describe(response.headers, *g.limited)
        return response
