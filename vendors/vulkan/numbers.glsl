// The numbers of operations and functions (docs/vil.md, section 2).
const uint LOAD = 1, STORE = 2, FILL = 3, IOTA = 4, UN = 5, BIN = 6, SEL = 7, CAST = 8, RED = 9,
           MMA = 10, TRN = 11, LOOP = 12, END = 13, IF = 14, SREG = 15, GATHER = 16, SCATTER = 17,
           COPY = 18;
const uint MOV = 1, NEG = 2, ABS = 3, EXP = 4, EXP2 = 5, LOG = 6, LOG2 = 7, SQRT = 8, RSQRT = 9,
           RCP = 10, SIN = 11, COS = 12, TANH = 13, ERF = 14, FLOOR = 15, CEIL = 16, TRUNC = 17,
           ROUND = 18, NOT = 19, ISNAN = 20, ADD = 21, SUB = 22, MUL = 23, DIV = 24, MAX = 25, MIN
           = 26, POW = 27, FMOD = 28, IDIV = 29, IMOD = 30, AND = 31, OR = 32, XOR = 33, SHL = 34,
           SHR = 35, SHRU = 36, MULHI = 37, LT = 38, LE = 39, EQ = 40, NE = 41, ARGMAX = 42,
           ARGMIN = 43, SET = 44, RAW = 45, UNIFORM = 46, ARG = 47, TILE = 48, GRID = 49, CHOOSE =
           50;
