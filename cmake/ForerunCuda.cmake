# The CUDA backend's compiler. Where there is no nvcc the backend is left out, with a message, so
# that the cuda-release preset configures and builds the CPU part on any machine.
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real)
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(WARNING "FORERUN_CUDA is on, but no CUDA compiler was found (nvcc on the PATH, "
                  "CUDACXX or /usr/local/cuda/bin/nvcc): building without the CUDA backend.")
  set(FORERUN_CUDA OFF)
  return()
endif()

# Binaries run on any machine with a driver; they find no CUDA library to load and need none.
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has had C++20 since CUDA 12.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

# A contracted multiply-add is spelled out in the kernels, as on the CPU.
target_compile_options(forerun_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
if(FORERUN_WERROR)
  target_compile_options(forerun_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
