# Compile for glibc 2.28 of $WHEEL_MACHINE with Zig's Clang: no container, any machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{WHEEL_MACHINE})
set(CMAKE_CXX_COMPILER "$ENV{WHEEL_ZIG}" c++ -target "$ENV{WHEEL_MACHINE}-linux-gnu.2.28")
