#!/usr/bin/env python3
"""Tests what cuda.bzl finds on machines made by hand.

usage: cuda_bzl_test.py CUDA_BZL
"""

import sys
import types
import unittest

import bzl_rule

CUDA = "/usr/local/cuda"
NCCL_H = "#define NCCL_MAJOR {}\n#define NCCL_MINOR {}\n#define NCCL_PATCH {}\n"


RULE = bzl_rule.names_of(sys.argv[1])["cuda"]


def toolkit(root=CUDA, version=13000):
    """The files of a toolkit."""
    return {
        root + "/bin/nvcc": "",
        root + "/include/cuda_runtime_api.h":
            f"/* ... */\n#define CUDART_VERSION  {version}\n",
        root + "/lib64/libcudart_static.a": "",
    }


class Machine:
    """A machine, as the rule sees it and what it makes."""

    def __init__(self, files, variables=None, refusal=""):
        self.files = files  # Their texts.
        self.refusal = refusal  # What nvcc says of the compiler.
        self.os = types.SimpleNamespace(environ=variables or {})
        self.made, self.links, self.commands = {}, {}, []
        RULE["implementation"](self)
        self.installed = {}
        exec(self.made["installed.bzl"], self.installed)

    def path(self, name):
        folder = name + "/"
        return types.SimpleNamespace(
            exists=name in self.files
            or any(file.startswith(folder) for file in self.files))

    def read(self, name):
        return self.files[name]

    def which(self, name):
        return "/usr/bin/" + name

    def execute(self, command):
        self.commands.append(command)
        if "--version" in command:
            return types.SimpleNamespace(return_code=0, stdout="nvcc\n", stderr="")
        return types.SimpleNamespace(
            return_code=1 if self.refusal else 0, stdout="", stderr=self.refusal)

    def file(self, name, text):
        self.made[name] = text

    def symlink(self, target, name):
        self.links[name] = target

    def text_of(self, function):
        """What the function of gpu/cuda_found.h returns."""
        return self.made["found.cc"].split(
            function + '() { return "')[1].split('"; }')[0]


class CudaTest(unittest.TestCase):

    def check_found(self, machine, root, text):
        self.assertEqual(machine.text_of("CudaFound"), text)
        self.assertEqual(machine.made["toolkit.txt"], text + "\nnvcc\n")
        self.assertTrue(machine.installed["HAS_CUDA"])
        self.assertEqual(machine.installed["WITH_CUDA"], [])
        self.assertEqual(machine.installed["CUDA_ROOT"], root)
        self.assertEqual(machine.links["include"], root + "/include")

    def check_nothing(self, machine, text):
        self.assertEqual(machine.text_of("CudaFound"), text)
        self.assertEqual(machine.made["toolkit.txt"], text + "\n")
        self.assertEqual(machine.text_of("NcclFound"),
                         "not looked for without CUDA")
        for library in ["CUDA", "NCCL"]:
            self.assertFalse(machine.installed["HAS_" + library])
            self.assertEqual(machine.installed["WITH_" + library],
                             ["@platforms//:incompatible"])
        self.assertEqual(machine.installed["CUDA_ROOT"], "")
        self.assertEqual(machine.links, {})

    def test_it_is_in_the_default_folder(self):
        machine = Machine(toolkit())
        self.check_found(machine, CUDA, "13.0 in /usr/local/cuda")
        self.assertEqual(machine.links["lib/libcudart_static.a"],
                         CUDA + "/lib64/libcudart_static.a")

    def test_cuda_path_comes_before_cuda_home_and_that_before_the_default(self):
        files = toolkit() | toolkit("/path", 12040) | toolkit("/home", 12080)
        variables = {"CUDA_HOME": "/home"}
        self.check_found(Machine(files, variables), "/home",
                         "12.8 in /home (of CUDA_HOME)")
        variables["CUDA_PATH"] = "/path"
        self.check_found(Machine(files, variables), "/path",
                         "12.4 in /path (of CUDA_PATH)")

    def test_an_empty_variable_is_none(self):
        machine = Machine(toolkit(), {"CUDA_HOME": "", "CUDA_PATH": ""})
        self.check_found(machine, CUDA, "13.0 in /usr/local/cuda")

    def test_the_library_may_be_in_lib(self):
        files = toolkit()
        files[CUDA + "/lib/libcudart_static.a"] = files.pop(
            CUDA + "/lib64/libcudart_static.a")
        self.assertEqual(Machine(files).links["lib/libcudart_static.a"],
                         CUDA + "/lib/libcudart_static.a")

    def test_a_folder_that_does_not_exist_is_named(self):
        self.check_nothing(Machine({}), "there is no folder /usr/local/cuda; "
                           "CUDA_PATH may name another")
        # Another one does not take its place.
        self.check_nothing(Machine(toolkit(), {"CUDA_PATH": "/nowhere"}),
                           "there is no folder /nowhere (of CUDA_PATH); "
                           "CUDA_PATH may name another")

    def test_what_a_folder_lacks_is_named(self):
        self.check_nothing(
            Machine({CUDA + "/version.json": ""}),
            "/usr/local/cuda has no bin/nvcc, no include/cuda_runtime_api.h, "
            "no lib64/libcudart_static.a")
        files = toolkit("/home")
        del files["/home/bin/nvcc"]
        self.check_nothing(Machine(files, {"CUDA_HOME": "/home"}),
                           "/home (of CUDA_HOME) has no bin/nvcc")

    def test_an_old_toolkit_is_not_used(self):
        self.check_found(Machine(toolkit(version=12000)), CUDA,
                         "12.0 in /usr/local/cuda")
        self.check_nothing(Machine(toolkit(version=11080)),
                           "/usr/local/cuda has CUDA 11.8, and 12.0 is the "
                           "oldest that will do")

    def test_a_toolkit_that_refuses_the_compiler_is_not_used(self):
        machine = Machine(toolkit(), {"CC": "gcc-15"}, refusal=(
            "In file included from empty.cu:\n"
            'host_config.h:1: error: "gcc 15" is \\not supported\n'))
        self.check_nothing(machine, "/usr/local/cuda cannot compile for this "
                           "host: host_config.h:1: error: 'gcc 15' is /not "
                           "supported")
        self.assertIn("--compiler-bindir=/usr/bin/gcc-15", machine.commands[0])

    def test_it_is_missing_where_the_variable_names_it(self):
        for without in "cuda", "openmpi, cuda":
            self.check_nothing(Machine(toolkit(), {"TUTTI_WITHOUT": without}),
                               "TUTTI_WITHOUT names it")
        self.check_found(Machine(toolkit(), {"TUTTI_WITHOUT": "openmpi"}), CUDA,
                         "13.0 in /usr/local/cuda")

    def test_bazel_looks_again_when_a_variable_changes(self):
        self.assertLessEqual({"CC", "CUDA_HOME", "CUDA_PATH", "TUTTI_WITHOUT"},
                             set(RULE["environ"]))


class NcclTest(unittest.TestCase):

    def check_found(self, headers, folder, text):
        """With these headers, by path."""
        machine = Machine(toolkit() | headers)
        self.assertEqual(machine.text_of("NcclFound"), text)
        self.assertTrue(machine.installed["HAS_NCCL"])
        self.assertEqual(machine.installed["WITH_NCCL"], [])
        self.assertEqual(machine.links["nccl/nccl.h"], folder + "/nccl.h")

    def check_nothing(self, headers, text, variables=None):
        machine = Machine(toolkit() | headers, variables)
        self.assertEqual(machine.text_of("NcclFound"), text)
        self.assertTrue(machine.installed["HAS_CUDA"])
        self.assertFalse(machine.installed["HAS_NCCL"])
        self.assertEqual(machine.installed["WITH_NCCL"],
                         ["@platforms//:incompatible"])
        self.assertNotIn("nccl/nccl.h", machine.links)

    def test_the_header_is_with_the_toolkit_or_the_system(self):
        new = NCCL_H.format(2, 28, 9)
        for folder in [CUDA + "/include", "/usr/include"]:
            self.check_found({folder + "/nccl.h": new}, folder,
                             "header 2.28.9 in " + folder)

    def test_without_a_header_the_folders_are_named(self):
        self.check_nothing(
            {}, "there is no nccl.h in /usr/local/cuda/include or /usr/include")

    def test_it_is_missing_where_the_variable_names_it(self):
        self.check_nothing({"/usr/include/nccl.h": NCCL_H.format(2, 28, 9)},
                           "TUTTI_WITHOUT names it", {"TUTTI_WITHOUT": "nccl"})

    def test_an_old_header_is_not_used(self):
        self.check_found({"/usr/include/nccl.h": NCCL_H.format(2, 14, 3)},
                         "/usr/include", "header 2.14.3 in /usr/include")
        self.check_found({"/usr/include/nccl.h": NCCL_H.format(3, 0, 1)},
                         "/usr/include", "header 3.0.1 in /usr/include")
        for version in [(2, 13, 4), (1, 20, 0)]:
            self.check_nothing(
                {"/usr/include/nccl.h": NCCL_H.format(*version)},
                "/usr/include has the header of NCCL {}.{}.{}, and 2.14 is the "
                "oldest that will do".format(*version))

    def test_an_old_header_does_not_hide_a_newer_one(self):
        self.check_found({CUDA + "/include/nccl.h": NCCL_H.format(2, 8, 4),
                          "/usr/include/nccl.h": NCCL_H.format(2, 28, 9)},
                         "/usr/include", "header 2.28.9 in /usr/include")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
