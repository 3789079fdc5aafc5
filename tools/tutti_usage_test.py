#!/usr/bin/env python3
"""Which command lines are wrong, and what the help says.

usage: tutti_usage_test.py TUTTI
"""

import json
import os
import re
import shlex
import subprocess

import numpy as np

from tutti_testing import arrays_of, main, ToolTest, TUTTI

# What has a --help.
PAGES = ["", "run", "perf", "info", "explain", "tune", "verify", "schedule",
         "simulate", "launch", "worker", "certs"]

# Wrong command lines; after "=>" what the error says, apart by " & ". FILES
# stands for options that are right for run.
WRONG = """
=> wanted a command: run, perf, launch, worker, certs, info, explain, tune, verify, schedule or simulate & see `tutti --help`
fly => unknown command "fly" & known: run, perf, launch, worker,

run FILES => wanted a COLLECTIVE & all_to_all & see `tutti run --help`
run allreduce FILES => all_reduce
run reduce FILES --reduction mean => bxor, avg
run reduce FILES --permutation 0 => --permutation does not go with reduce, only with permute
run gather --output out => gather needs --input
run all_reduce
run all_reduce --input x
run all_reduce --output out
run all_reduce FILES extra => unexpected argument "extra"
run all_reduce FILES info => unexpected argument "info"
run all_reduce FILES --fly 3 => unknown option "--fly"
run all_reduce FILES --groups => --groups needs a value
run all_reduce --output --watch --input x => --output needs a value, found "--watch"
run all_reduce --output= --groups=1 --input x => --output needs a value, found "--groups=1"
run all_reduce --input --output out => --input needs a value, found "--output"
run all_reduce --input '' --output out => --input: "" is no name
run all_reduce --input in/rank*.npy --output in/../in => would replace the input in/rank0.npy
run reduce --root 1 --input in/rank*.npy --output in => would replace the input in/rank1.npy
run all_reduce FILES --reduction fly
run all_reduce FILES --algorithm Fly
run all_reduce FILES --algorithm '' => --algorithm: "" is no name
run all_reduce FILES --algorithm PairwiseAllToAll
run all_reduce FILES --root 0 => --root does not go with all_reduce, only with broadcast, reduce, gather, scatter
run scan FILES --reduction avg => --reduction avg does not go with scan, only with all_reduce, reduce_scatter, reduce
run all_reduce FILES --groups 2 => --groups 2 does not divide
run all_reduce FILES --groups 0
run all_reduce FILES --tasks 2
run all_reduce FILES --tasks 1 --tasks 2 => --tasks is given more than once
run all_reduce FILES --devices 4
run all_reduce --input in/rank0.npy --output out --devices 4 => --devices 4 does not fit 1 input file;
run scatter --input in/rank0.npy in/rank1.npy --output out --devices 4 => root's file alone
run all_reduce FILES --deadline -1
run all_reduce FILES --deadline nan
run all_reduce FILES --deadline 1s => --deadline: "1s" & positive number of seconds
run all_reduce FILES --rank-list 0,3 => --rank-list: [0,3] does not list ranks of a group of 3: 3 is no rank
run all_reduce FILES --rank-list 1,0,1 => --rank-list: [1,0,1] does not list ranks of a group of 3: 1 stands twice
run all_reduce FILES --rank-list 0,x => --rank-list
run all_reduce FILES --watch=false => --watch takes no value
run all_gather FILES --uneven => --uneven does not go with all_gather, only with reduce_scatter, scatter
run broadcast FILES --root 3 => --root 3 is no rank of a group of 3; wanted 0 to 2
run broadcast FILES --root -1
run reduce FILES --root x => --root: "x" is no whole number from 0 to 65535
run permute FILES
run permute FILES --permutation 2,0,0 => --permutation: [2,0,0] is not a permutation of 3 ranks: 0 stands twice
run permute FILES --permutation 2,0,3 => --permutation: [2,0,3] is not a permutation of 3 ranks: 3 is no rank
run permute FILES --permutation 1,0 => --permutation: [1,0] is not a permutation of 3 ranks: it has 2 entries
run permute FILES --permutation 2,x,1 => --permutation: "x" is no whole number
run permute FILES --permutation 1,,0 => --permutation: & has an empty item
run permute FILES --permutation=1,0, => --permutation: & has an empty item
run permute FILES --permutation ,1,0 => --permutation: & has an empty item
run permute FILES --rank-list 0,,1 => --rank-list: & has an empty item
run barrier
run barrier FILES
run barrier --devices 2 --reduction sum => --reduction does not go with barrier, only with all_reduce, reduce_scatter, reduce
run barrier --devices 2 --watch

perf => see `tutti perf --help`
perf fly => all_reduce
perf permute --permutation 1,,0 => see `tutti perf --help`
perf permute --root --check => see `tutti perf --help`
perf all_reduce extra
perf all_reduce --max-bytes fly
perf all_reduce --max-bytes 99999999999999999999 => "99999999999999999999" & 64M
perf all_reduce --bytes 0 => --bytes 0: wanted at least 1 byte
perf all_reduce --min-bytes 0 => --min-bytes 0: wanted at least 1 byte
perf all_reduce --min-bytes 4X => --min-bytes
perf all_reduce --min-bytes 2M --max-bytes 1M => --min-bytes 2M
perf all_reduce --max-bytes 1048577G => --max-bytes 1048577G: wanted at most 1048576G
perf all_reduce --bytes '' => --bytes:  & ""
perf all_reduce --bytes 4 --max-bytes 8
perf all_reduce --factor 1
perf all_reduce --tasks 3 => --tasks 3
perf all_reduce --rank-list 0,8 => --rank-list: [0,8]
perf reduce --root 8 => --root 8
perf all_reduce --devices 0
perf all_reduce --devices -1 => --devices: "-1" is no whole number from 1 to 65536
perf all_reduce --device tpu => "tpu" is neither cpu nor gpu
perf all_reduce --seed -1 => --seed: "-1"
perf all_reduce --dtype float8 => float8
perf all_reduce --dtype bool => bool
perf all_reduce --deadline 0 => --deadline: "0" & positive number of seconds
perf all_reduce --iterations 0
perf all_reduce --algorithm Fly
perf all_reduce --algorithm RingGather => RingGather does not do all_reduce & RingReduce, ShuffleReduce,
perf all_reduce --algorithm RingReduce,RingGather
perf all_reduce --check=maybe => --check takes no value
perf all_reduce --check=false => --check takes no value
perf all_reduce --json=5 => --json takes no value
perf all_reduce --insecure=0 => --insecure takes no value
perf all_reduce --task 0 => wanted to know who takes part
perf all_reduce --cluster localhost:1 --devices 2 => --devices does not go with a cluster
perf barrier --bytes 4
perf barrier --min-bytes 4 => --min-bytes does not go with barrier
perf barrier --max-bytes 1K => --max-bytes does not go with barrier
perf barrier --check => --check does not go with barrier
perf barrier --factor 2 => --factor does not go with barrier
perf barrier --dtype int8 => --dtype does not go with barrier
perf barrier --seed 2 => --seed does not go with barrier
perf barrier --in-place => --in-place does not go with barrier
perf barrier --hot => --hot does not go with barrier

explain
explain fly
explain all_reduce --layout 8
explain all_reduce --layout 1x65537
explain all_reduce --bytes fly
explain all_reduce --bytes '' => --bytes:  & ""
explain all_reduce --dtype bool
explain all_reduce --dtype float8
explain all_reduce --reduction fly
explain all_reduce --algorithm Fly
explain all_reduce --root 1
explain all_gather --reduction sum
explain barrier --bytes 4 => --bytes does not go with barrier
explain barrier --dtype int8 => --dtype does not go with barrier
tune --output x --deadline 0 => --deadline: "0" & positive number of seconds
tune --output x --bytes '' => --bytes:  & ""
tune --output x --layout 1x2,3+1 => --layout 3+1: wanted as many devices on each task
tune --output x --layout 8 => "8" is no layout
tune --output x --max-bytes 2 => --min-bytes 4 is more than --max-bytes 2
tune reduce_all --output x => reduce_all
tune --output x --cluster localhost:1,localhost:2 --task 0 --layout 1x2 => --layout does not go with a cluster
tune --output x --cluster localhost:1 --devices-per-task 3 => wanted --layout 1x3
info extra
verify Fly => RingReduce
verify [RingReduce,TreeReduce] => [RingReduce,TreeReduce]
verify --max-ranks 0

schedule
schedule Fly => unknown algorithm
schedule LocalReduce => LocalReduce has no steps to show: it is code, not a schedule; these do: Barrier,  & RingReduce, RingReduceScatter
schedule RingReduce --ranks 0
schedule RingReduce --ranks 1025 => --ranks: "1025" is no whole number from 1 to 1024
schedule RingReduce --layout 8
schedule TreeReduce --layout 1025x1 => at most 1024 ranks
schedule RingReduce --ranks 4 --layout 2x4 => --ranks 4 does not fit --layout 2x4, which has 8
schedule RingReduce --ranks 65 --svg out => --svg draws at most 64 ranks, not 65
schedule RingReduce --svg out --goal out => one of --text, --svg and --goal
schedule RingReduce --collective barrier => RingReduce does not do barrier
schedule RingReduce --collective fly => fly
schedule RingReduce --collective gather => RingReduce does not do gather; it does all_reduce
schedule RingReduce --root 0 => --root does not go with all_reduce
schedule RingReduce --bytes 0
schedule RingReduce --bytes x => --bytes
schedule Scatter --ranks 4 --root 4 => --root 4 is no rank of a group of 4; wanted 0 to 3
schedule Barrier --bytes 4 => --bytes does not go with barrier
simulate
simulate Fly
simulate LocalReduce
simulate Barrier --bytes 4 => --bytes does not go with barrier
simulate RingReduce --ranks 1000001
simulate RingReduce --bytes 0

launch => --tasks is missing: how many processes & see `tutti launch --help`
launch --tasks 0 -- perf all_reduce => "0" is no whole number from 1 to
launch --tasks x -- perf all_reduce => "x" is no whole number
launch --tasks 2 => wanted a command after --
launch --tasks 2 -- => wanted a command after --
launch --tasks 2 perf => unexpected argument "perf"; wanted options only, and a command after --
launch --tasks 2 -- info => info takes no part in a cluster; wanted perf, run or tune
launch --tasks 2 -- launch --tasks 2 -- perf all_reduce => launch takes no part in a cluster
launch --tasks 2 -- prf => unknown command "prf"
launch --tasks 2 -- perf => wanted a COLLECTIVE & see `tutti perf --help`
launch --tasks 2 -- perf all_reduce --chekc => unknown option "--chekc"
launch --tasks 2 --grace -1 -- perf all_reduce => --grace
launch --tasks 2 --cluster a:1 -- perf all_reduce => unknown option "--cluster"
launch --tasks 3 --devices-per-task 0 -- perf all_reduce => --devices-per-task & see `tutti launch --help`
launch --tasks 3 --detect medium -- perf all_reduce => --detect & see `tutti launch --help`
launch --tasks 3 --start-timeout 0 -- perf all_reduce => --start-timeout & see `tutti launch --help`
launch --tasks 3 --tls-cert c.pem -- perf all_reduce => --tls-cert & see `tutti launch --help`
TUTTI_DETECT=bogus launch --tasks 3 -- perf all_reduce => TUTTI_DETECT
worker => see `tutti worker --help`
worker -- perf all_reduce => wanted to know who takes part
worker --cluster localhost:1 -- perf => see `tutti perf --help`
worker --cluster localhost:1 -- perf all_reduce --task 0 => --task goes to the worker
worker --cluster localhost:1,localhost:2 -- perf all_reduce => wanted to know which of the 2 tasks this is
worker --cluster localhost:1,localhost:2 --task 2 -- perf all_reduce => --task: there is no task 2
worker --cluster localhost:1,localhost:2 --task 0 --detect slow -- perf all_reduce => --detect: "slow" is neither default nor fast
worker --cluster localhost -- perf all_reduce => --cluster: the address of task 0
worker --cluster host1:7000 -- perf all_reduce => --insecure
worker --cluster-file cluster.json -- perf all_reduce => cluster.json: detect: "no" is neither
TUTTI_CLUSTER_FILE=broken.json worker -- perf all_reduce => broken.json: not JSON
TUTTI_TASK=x TUTTI_CLUSTER=localhost:1 worker -- perf all_reduce => TUTTI_TASK: "x" is no whole number
SLURM_PROCID=0 SLURM_STEP_NODELIST=n[ SLURM_STEP_TASKS_PER_NODE=1 worker --insecure -- perf all_reduce => SLURM_STEP_NODELIST: "n[" is no list
HYDRA perf all_reduce => MPI_LOCALNRANKS is set and PMI_SIZE is 2:  & the mpirun of the Open MPI that
HYDRA run barrier => MPI_LOCALNRANKS is set and PMI_SIZE is 2:  & the mpirun of the Open MPI that
HYDRA tune barrier --layout 1x2 --output rules.json => MPI_LOCALNRANKS is set and PMI_SIZE is 2:  & the mpirun of the Open MPI that
certs --tasks 1 --out other --hosts 'a b' => --hosts: "a b" is neither
"""

# Variables of an mpirun that is not Open MPI's.
HYDRA = "PMI_SIZE=2 PMI_RANK=1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1"


def words_of(line):
    """The variables and the words of a command line."""
    words = shlex.split(line.replace("HYDRA", HYDRA).replace(
        "FILES", "--input in/rank*.npy --output out"))
    variables = [word for word in words if re.match("[A-Z_]+=", word)]
    return (dict(word.split("=", 1) for word in variables),
            words[len(variables):])


class UsageTest(ToolTest):
    """A wrong command line is told from a failed run."""

    def test_wrong_command_lines(self):
        self.save([np.zeros(6)] * 3)
        (self.root / "cluster.json").write_text(json.dumps(
            {"tasks": ["localhost:1"], "detect": "no"}))
        (self.root / "broken.json").write_text("{")
        before = sorted(os.listdir(self.root))
        for case in filter(None, WRONG.splitlines()):
            with self.subTest(case):
                line, _, wanted = case.partition("=>")
                variables, words = words_of(line)
                error = self.fail_with(2, *words, variables=variables)
                self.assertRegex(error, r" \(see `[^`\n]+ --help`\)\n\Z")
                self.assertEqual(error.count("--help`"), 1)
                for text in wanted.split(" & "):
                    self.assertIn(text.strip(), error)
        self.assertEqual(sorted(os.listdir(self.root)), before)

    def test_variables_concern_no_command_that_does_not_ask(self):
        for line in ["TUTTI_CLUSTER=host1:1,host2:2 TUTTI_TASK=0 run barrier "
                     "--devices 2",
                     "HYDRA PMI_SIZE=1 run barrier --devices 2",
                     "PMI_SIZE=2 PMI_RANK=1 run barrier --devices 2",
                     "HYDRA launch --tasks 2 -- run barrier"]:
            with self.subTest(line):
                variables, words = words_of(line)
                result = self.run_tool(*words, variables=variables)
                self.assertEqual(result.returncode, 0, result)

    def test_what_takes_too_much_memory_is_refused_before_the_first_row(self):
        # Though only the last row has not enough.
        self.assertRegex(
            self.fail_with(1, "perf", "all_reduce", "--max-bytes", "1024G"),
            r"\Atutti: buffers for all_reduce of \w+ bytes on 8 ranks take \w+ "
            r"bytes, more than the memory that is available, \w+\n\Z")

    def test_what_a_library_runs_is_not_shown(self):
        info = json.loads(self.succeed("info", "--json"))
        if "MPI" not in info["build"]["extensions"]:
            self.skipTest("built without MPI")
        for command in ("schedule", "simulate"):
            self.assertIn("LocalThenMpi has no steps to show: its messages are "
                          "those of MPI",
                          self.fail_with(2, command, "LocalThenMpi"))
        self.assertIn("MpiReduce needs processes that MPI connects; these can "
                      "serve: ", self.fail_with(
                          1, "perf", "all_reduce", "--algorithm", "MpiReduce"))

    def test_help_teaches(self):
        for page in PAGES:
            text = self.succeed(*page.split(), "--help")
            self.assertIn("Examples:\n  tutti ", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_the_help_of_the_command_is_printed_once(self):
        for line in ["launch --tasks 3", "worker --cluster localhost:1"]:
            text = self.succeed(*line.split(), "--", "perf", "--help")
            self.assertEqual(text.count("Usage: tutti perf"), 1)

    def test_examples_of_the_help_are_right(self):
        self.save(arrays_of(4, 4), "grads")
        self.save(arrays_of(8, 4), "x")
        for name in ["weights", *"abc"]:
            np.save(self.root / f"{name}.npy", arrays_of(1, 4)[0])
        (self.root / "cluster.json").write_text(json.dumps(
            {"links": [{"name": "all", "latency_us": 1, "gb_per_s": 10}]}))
        # Quicker than they stand: fewer ranks; and of sizes the first.
        quicker = {"verify": ["--max-ranks 4"],
                   "perf": ["--iterations 1", "--warmup 0", f"--factor {1 << 30}"],
                   "tune": ["--rounds 1", "--iterations 1", "--max-bytes 64"]}
        num_examples = 0
        for page in PAGES:
            for example in re.findall(r"^  (tutti .*)$",
                                      self.succeed(*page.split(), "--help"),
                                      re.MULTILINE):
                command = example.split()[1]
                example = re.sub(r"--max-ranks \d+", "--max-ranks 4", example)
                if command in ("launch", "worker"):
                    continue  # Several processes: tutti_cluster_test.py.
                options = [option for option in quicker.get(command, [])
                           if option.split()[0] not in example]
                if "barrier" in example or "--bytes" in example:
                    options = [option for option in options
                               if not option.startswith("--factor")]
                result = subprocess.run(
                    ["bash", "-c", " ".join(
                        [example.replace("tutti", TUTTI, 1), *options])],
                    text=True, cwd=self.root, capture_output=True, check=False)
                self.assertEqual(result.returncode, 0, (example, result))
                num_examples += 1
        self.assertGreaterEqual(num_examples, 30)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"\Atutti \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    main()
