"""What `./dev bench in_process` found, and how far that is from what we want."""

import dataclasses
import statistics

from comparison import MIB, median_ratio, text_of

OUT_OF_PLACE, IN_PLACE = "out of place", "in place"
PREPARED, SHARED = "prepared", "shared output"  # Prepared, too.
TWO_THREADS, HANDED_OVER = "two threads", "handed over"
COPY, IN_PLACE_FLOOR = "copy", "in-place floor"
SHARED_FLOOR, CACHE_COPY = "shared floor", "cache copy"
ONE, MANY, MANY_BY_DEVICE = "one of 4 MiB", "1000 calls of 4 KiB", "by device"
TOGETHER = "1000 of 4 KiB in one call"  # As segments.

# Weak and strong ones, by the settings they are tried with.
PACKAGED = ["Open MPI", "Gloo ring", "Gloo bcube"]
STRONGEST = ["Intel MPI", "Intel MPI 13", "TF", "TF chained"]


@dataclasses.dataclass
class Verdict:
    """An aim, and the figure that is farthest from it."""

    aim: str
    wanted: float
    got: float
    where: str
    is_met: bool

    def missed_by(self):
        """How many times too much or too little it is; None where there is no
        such number."""
        if self.is_met or not self.wanted or not self.got:
            return None
        return max(self.got / self.wanted, self.wanted / self.got)

    def __str__(self):
        factor = self.missed_by()
        missed = f", missed {factor:.2f}-fold" if factor else ""
        return f"{self.aim}: {self.got:.2f}, worst at {self.where}{missed}"


class Results:
    """Seconds of each round: times[devices][size][name]."""

    def __init__(self, times):
        self.times = times

    def of(self, devices, size, name):
        """None if that was not measured."""
        return self.times.get(devices, {}).get(size, {}).get(name)

    def fastest(self, devices, size, names):
        """Of those, by the median; None if none was measured."""
        times = [self.of(devices, size, name) for name in names]
        return min(filter(None, times), key=statistics.median, default=None)

    def ratio(self, devices, size, others, name):
        """How many times as long the fastest of the others takes; None."""
        fastest = self.fastest(devices, size, others)
        own = self.of(devices, size, name)
        return median_ratio(fastest, own) if fastest and own else None

    def sizes(self, devices, least=0, most=None):
        return [size for size in self.times.get(devices, {})
                if size >= least and (most is None or size <= most)]

    def least_ratio(self, aim, wanted, points, others, name=OUT_OF_PLACE):
        """Whether the ratio is at least `wanted` at all of the points, which
        are (devices, size); none if it is known at none."""
        found = [(self.ratio(*point, others, name), point) for point in points]
        found = [one for one in found if one[0] is not None]
        if not found:
            return []
        got, (devices, size) = min(found)
        return [Verdict(aim, wanted, got, f"{devices} x {text_of(size)}",
                        got >= wanted)]

    def most_time(self, aim, wanted, sizes, name, unit=1e-6,
                  of=statistics.median):
        found = [(of(times) / unit, size) for size in sizes
                 if (times := self.of(8, size, name))]
        if not found:
            return []
        got, size = max(found)
        return [Verdict(aim, wanted, got, f"8 x {text_of(size)}",
                        got <= wanted)]


def prepared(results):
    """Of 4 bytes, for each member."""
    return [
        Verdict(f"{name}, from one thread, ns for each member, at most 150",
                150, got, f"{devices} x 4 B", got <= 150)
        for name in (PREPARED, SHARED) for devices in (2, 8)
        if (times := results.of(devices, 4, name))
        for got in [statistics.median(times) / devices * 1e9]]


def limits(results):
    """Beside what the machine can do."""
    large = [(devices, size) for devices in results.times
             for size in results.sizes(devices, 16 * MIB)]
    small = results.sizes(8, most=1 << 10)
    return [
        *results.least_ratio("out of place, of the speed of a copy past the "
                             "caches, from 16 MiB, at least 0.9", 0.9, large,
                             [COPY]),
        *results.least_ratio("in place, of the floor, from 16 MiB, at least "
                             "0.9", 0.9, large, [IN_PLACE_FLOOR], IN_PLACE),
        *results.least_ratio("shared output, of the floor, from 16 MiB, at "
                             "least 0.9", 0.9, large, [SHARED_FLOOR], SHARED),
        *results.least_ratio("in place, of the speed of a copy in the caches, "
                             "at least 0.6", 0.6, [(8, MIB)], [CACHE_COPY],
                             IN_PLACE),
        *results.most_time("up to 1 KiB, from one thread, us, at most 1.5", 1.5,
                           small, OUT_OF_PLACE),
        *results.most_time("up to 1 KiB, from two threads, us, at most 3", 3,
                           small, TWO_THREADS),
        *prepared(results),
        *results.most_time("up to 1 KiB, pieces of work handed to other "
                           "threads, none", 0, small, HANDED_OVER, unit=1e-9,
                           of=max)]


def peers(results):
    """Beside what others do. Times of theirs, in times of ours."""
    def points(devices, least=0, most=None):
        return [(devices, size)
                for size in results.sizes(devices, least, most)]
    verdicts = []
    for name in ["Open MPI", "Gloo"]:
        names = [one for one in PACKAGED if one.startswith(name)]
        verdicts += results.least_ratio(
            f"{name}'s time, from 1 MiB, at least 8 of ours", 8,
            points(8, MIB), names)
        verdicts += results.least_ratio(
            f"{name}'s time, at every size, at least 1 of ours", 1, points(8),
            names)
    for aim, wanted, where in [
            ("at 1 MiB, at least 4", 4, points(8, MIB, MIB)),
            ("from 16 MiB, at least 4", 4, points(8, 16 * MIB)),
            ("at every size, 8 devices, at least 1", 1, points(8)),
            ("from 4 MiB, 2 devices, at least 1.7", 1.7, points(2, 4 * MIB)),
            ("from 64 KiB, 2 devices, at least 1", 1, points(2, 64 << 10))]:
        verdicts += results.least_ratio(
            f"the strongest peer's time, {aim} of ours", wanted, where,
            STRONGEST)
    return verdicts


def halves(times):
    """{dtype: {size: [seconds]}} of 8 devices, beside float32."""
    return [
        Verdict(f"{dtype}, of the byte rate of float32, at least 0.9", 0.9,
                *worst, worst[0] >= 0.9)
        for dtype in times if dtype != "float32"
        for worst in [min(
            (median_ratio(times["float32"][size], times[dtype][size]),
             f"8 x {text_of(size)}") for size in times[dtype])]]


def many(times):
    """{name: [seconds]} of 1000 of 4 KiB, and of one of 4 MiB."""
    share = 1000 * (4 << 10) / (4 * MIB)
    verdicts = []
    for name in (TOGETHER, MANY, MANY_BY_DEVICE):
        got = share * median_ratio(times[ONE], times[name])
        verdicts.append(Verdict(
            f"{name}, of the throughput of {ONE}, at least 0.8", 0.8, got,
            "8 devices", got >= 0.8))
    return verdicts
