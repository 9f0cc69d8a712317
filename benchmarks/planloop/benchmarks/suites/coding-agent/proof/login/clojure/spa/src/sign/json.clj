(ns sign.json
  "As much of JSON as maps of strings need."
  (:require [clojure.string :as str]))

(def ^:private text #"\"((?:[^\"\\]|\\.)*)\"")
(def ^:private pair (re-pattern (str text "\\s*:\\s*" text)))

(defn- unescaped [s]
  (str/replace s #"\\(u([0-9a-fA-F]{4})|.)"
               (fn [[_ each code]]
                 (cond code (str (char (Integer/parseInt code 16)))
                       (= each "n") "\n"
                       (= each "t") "\t"
                       (= each "r") "\r"
                       :else each))))

(defn read-strings [s]
  (into {} (for [[_ k v] (re-seq pair s)] [(keyword (unescaped k)) (unescaped v)])))

(defn write-strings [m]
  (str "{" (str/join "," (for [[k v] m] (str (pr-str (name k)) ":" (pr-str v)))) "}"))
